package model

// FlawSettings returns one setting for each safeguard removed, with the
// property its search must find violated. Each is the smallest world known in
// which the safeguard is missed; more than one where a rule guards two.
func FlawSettings() []Setting {
	mixed := func(name string, flaw Flaw, breaks Property) Setting {
		return Setting{Name: name, Flaw: flaw, Breaks: breaks, Steps: 2, Mixed: true}
	}
	asked := func(name string, flaw Flaw, breaks Property) Setting {
		return Setting{Name: name, Flaw: flaw, Breaks: breaks, Steps: 2}
	}
	with := func(s Setting, b Budget) Setting { s.Budget = b; return s }
	signal := func(s Setting, sig Signal) Setting { s.Signal = sig; return s }
	sweep := func(s Setting) Setting { s.Sweeper = true; return s }
	fold := func(s Setting) Setting { s.Fold = true; return s }
	heavy := func(s Setting, least int) Setting { s.Least = least; return s }
	steps := func(s Setting, n int) Setting { s.Steps = n; return s }

	return []Setting{
		// Wake-ups.
		asked("M1 M acked once its own record is flushed", AckOwn, Wake),
		signal(asked("M6 wake of what follows = message held", WakeOfHeldInline, Wake), NeutralSignal),
		with(asked("M7 wake names the stream message; re-driven", WakeBySequence, Wake), Budget{Redrive: 1}),
		signal(asked("M19 only effects of the last record are resumed", ResumeLastOnly, Wake), NeutralSignal),
		heavy(signal(mixed("N1 wake of what follows a queued effect = message held", WakeOfHeld, Wake), NeutralSignal), 150_000),
		mixed("N2 X acked once e is not pending, whatever has wake e", AckXEarly, Wake),
		with(mixed("N3 asked dropped: an old copy may say not pending; 1 loss", TrustOldCopy, Wake), Budget{Loss: 1}),
		mixed("N3a as N3, no fault but lost PubAcks", TrustOldCopy, Wake),
		heavy(mixed("N3b a copy that does not know e: X given back", NoForcedRead, Stuck), 550_000),
		heavy(sweep(with(asked("N3c asked of a converted effect = its question", AskedOfQuestion, Stuck), Budget{Sweep: 1})), 160_000),
		sweep(with(asked("N5 answer of a converted effect passes on the old wake; sweeper, 1 expiry", ZombieKeepsWake, Wake), Budget{Sweep: 1, Expiry: 1})),
		with(asked("N5b as N5, letting go, no fault", ZombieKeepsWake, Wake), Budget{LetGo: 1}),
		mixed("N6 what follows a queued effect inherits its wake", InheritQueuedWake, Wake),
		with(mixed("N11 no flush before append; 1 crash", NoFlush, Wake), Budget{Crash: 1}),
		with(mixed("N12 ack before the outbox is out; 1 crash", AckBeforeFlush, Wake), Budget{Crash: 1}),
		mixed("N13 loser of the append race acks", LoserAcks, Wake),
		heavy(steps(signal(with(mixed("N22 hint that does not name its record; 1 crash", UnnamedHint, Wake), Budget{Crash: 1}), AskingSignal), 1), 1_500_000),
		with(mixed("N25 drain acks without the converting record", DrainAcks, Wake), Budget{Stop: 1}),
		mixed("N26 redelivered message acked, not resumed", NoResume, Wake),
		mixed("N27 acked because another has the claim", AckIfClaimed, Wake),

		// The chain.
		signal(mixed("N4 outcome applied without still pending?; cancel", NoPendingCheck, Chain), CancellingSignal),
		with(mixed("N4b as N4, two performers of one X; 1 expiry", NoPendingCheck, Chain), Budget{Expiry: 1}),
		fold(signal(mixed("N17 fold checks against the loaded state", FoldOnLoaded, Chain), CancellingSignal)),
		asked("M17 append without expected sequence", NoExpectation, Chain),

		// Starts.
		mixed("N7 look, then claim", LookThenClaim, TooLate),
		with(mixed("N8 claim, then no look; 1 loss", NoLook, TooLate), Budget{Loss: 1}),
		mixed("N9 claim released at the handler's return", ReleaseAtReturn, Window),
		mixed("N10 no claims", NoClaims, Window),
		mixed("N10a the claim of what was called at once comes whenever it comes", ClaimAtLeisure, Window),
		with(mixed("N14 no F and G; 1 loss", NoGrace, TooLate), Budget{Loss: 1}),
		with(mixed("N15 lane takes an older copy than it saw; 1 loss", TakeOlderCopy, Window), Budget{Loss: 1}),
		with(mixed("N16 confirming read may be stale; 1 loss", StaleLook, TooLate), Budget{Loss: 1}),
		heavy(with(asked("N21 letting go of another's fresh effects; 1 loss", LetGoFresh, TooLate), Budget{LetGo: 1, Loss: 1}), 150_000),
		with(asked("M16 called before the record that asks is acknowledged; 1 expiry", CallBeforeRecord, Window), Budget{Expiry: 1}),
		steps(signal(mixed("N18 compensation without closing the cancelled key", CompensateAtOnce, Cancel), CompensatingSignal), 1),
		steps(signal(mixed("U5 e3 undoes what is under way without waiting for it", UndoAtOnce, Cancel), UnwindingSignal), 1),

		// Failed attempts.
		with(asked("R1 due message acked by an older copy", TrustOldCopy, Wake), Budget{Failure: 1}),
		with(asked("R2 X of the second attempt has the id of the first", SameIDNextAttempt, Wake), Budget{Failure: 1, LetGo: 1}),
		with(mixed("R3 result met in retry asks inline, wake e; 1 expiry", RetryInline, Wake), Budget{Failure: 1, Expiry: 1}),
		heavy(with(mixed("R3b result met in retry passes on the old wake; 1 expiry", RetryKeepsWake, Wake), Budget{Failure: 1, Expiry: 1}), 100_001),
		with(mixed("R4 a failure counts whatever attempt it is of; 1 expiry", CountAnyFailure, Chain), Budget{Failure: 2, Expiry: 1}),

		// Pauses.
		signal(steps(asked("Z5 X of a resume has asked of the first", ResumeKeepsAsked, Wake), 1), PausingSignal),
		signal(steps(mixed("Z5a as Z5, inline or queued", ResumeKeepsAsked, Wake), 1), PausingSignal),
		signal(steps(asked("Z6 a resume restores inline with its old wake", ResumeRestores, Wake), 1), PausingSignal),
		heavy(signal(steps(asked("Z7 resumed within G", ResumeFresh, TooLate), 1), PausingSignal), 1_100_000),
	}
}
