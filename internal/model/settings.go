package model

// Settings returns the settings that are searched whole in an ordinary test.
// What each is for stands in its name; P asks inline, Q inline or queued at
// will, F lets attempts fail.
func Settings() []Setting {
	return []Setting{
		{Name: "P0 two steps", Steps: 2, Least: 10_300},
		{Name: "P1 two steps; 1 loss 1 crash 1 expiry", Steps: 2, Budget: Budget{Loss: 1, Crash: 1, Expiry: 1}, Least: 1_177_000},
		{Name: "P3 neutral signal, two steps", Steps: 2, Signal: NeutralSignal, Fold: true, Least: 522_000},
		{Name: "P4 asking signal, one step", Steps: 1, Signal: AskingSignal, Fold: true, Least: 668_000},
		{Name: "P6 compensating signal, one step", Steps: 1, Signal: CompensatingSignal, Fold: true, Least: 402_000},
		{Name: "P7 duplicate start, neutral signal, one step", Steps: 1, Duplicate: true, Signal: NeutralSignal, Fold: true, Least: 451_000},
		{Name: "P11 sweeper, two steps; 1 crash", Steps: 2, Sweeper: true, Budget: Budget{Sweep: 1, Crash: 1}, Least: 958_000},
		{Name: "P12 late append, forgotten ack, stale reads, two steps; 1 crash", Steps: 2, StaleReads: true, Budget: Budget{Late: 1, Unack: 1, Crash: 1}, Least: 207_000},
		{Name: "P14 re-driven start, two steps; 1 crash", Steps: 2, Budget: Budget{Redrive: 1, Crash: 1}, Least: 238_000},
		{Name: "Q0 two steps", Steps: 2, Mixed: true, Least: 1_057_000},
		{Name: "Q1g one step; 1 crash", Steps: 1, Mixed: true, Budget: Budget{Crash: 1}, Least: 58_000},
		{Name: "Q1f one step; 1 loss 1 crash 1 expiry", Steps: 1, Mixed: true, Budget: Budget{Loss: 1, Crash: 1, Expiry: 1}, Least: 1_107_000},
		{Name: "Q3c neutral signal, one step", Steps: 1, Mixed: true, Signal: NeutralSignal, Fold: true, Least: 694_000},
		{Name: "Q5c cancelling signal, one step", Steps: 1, Mixed: true, Signal: CancellingSignal, Fold: true, Least: 422_000},
		{Name: "Z0 paused and resumed, one step asked inline", Steps: 1, Signal: PausingSignal, Least: 2_737_000},
		{Name: "U0 unwinding signal, one step", Steps: 1, Signal: UnwindingSignal, Fold: true, Least: 1_640_000},
		{Name: "Q9a drain and letting go, one step; 1 crash", Steps: 1, Mixed: true, Budget: Budget{Stop: 1, LetGo: 1, Crash: 1}, Least: 873_000},
		{Name: "Q11f sweeper, one step; 1 crash 1 expiry", Steps: 1, Mixed: true, Sweeper: true, Budget: Budget{Sweep: 1, Crash: 1, Expiry: 1}, Least: 758_000},
		{Name: "Q12c late append, 2 forgotten acks, stale reads, one step; 1 crash", Steps: 1, Mixed: true, StaleReads: true, Budget: Budget{Late: 1, Unack: 2, Crash: 1}, Least: 565_000},
		{Name: "F1 1 failure, one step; 1 crash", Steps: 1, Budget: Budget{Failure: 1, Crash: 1}, Least: 1_604_000},
		{Name: "F2 2 failures, one step", Steps: 1, Budget: Budget{Failure: 2}, Least: 838_000},
		{Name: "F3 1 failure, two steps", Steps: 2, Budget: Budget{Failure: 1}, Least: 2_279_000},
	}
}

// LargeSettings returns the settings for a search of hours.
func LargeSettings() []Setting {
	mixed := func(name string, steps int, b Budget) Setting {
		return Setting{Name: name, Steps: steps, Mixed: true, Budget: b}
	}
	asked := func(name string, steps int, b Budget) Setting {
		return Setting{Name: name, Steps: steps, Budget: b}
	}
	signal := func(s Setting, sig Signal) Setting { s.Signal, s.Fold = sig, true; return s }
	sweep := func(s Setting) Setting { s.Sweeper = true; return s }
	stale := func(s Setting) Setting { s.StaleReads = true; return s }
	twice := func(s Setting) Setting { s.Duplicate = true; return s }

	return []Setting{
		twice(asked("P2 duplicate start, two steps; 1 loss 1 crash", 2, Budget{Loss: 1, Crash: 1})),
		signal(asked("P3b neutral signal, two steps; 1 crash", 2, Budget{Crash: 1}), NeutralSignal),
		signal(asked("P3a neutral signal, two steps; 1 loss", 2, Budget{Loss: 1}), NeutralSignal),
		signal(asked("P4a asking signal, one step; 1 loss 1 crash", 1, Budget{Loss: 1, Crash: 1}), AskingSignal),
		signal(asked("P6a compensating signal, one step; 1 loss", 1, Budget{Loss: 1}), CompensatingSignal),
		signal(asked("P6b compensating signal, one step; 1 crash 1 expiry", 1, Budget{Crash: 1, Expiry: 1}), CompensatingSignal),

		twice(signal(asked("P7a duplicate start, neutral signal, one step; 1 crash", 1, Budget{Crash: 1}), NeutralSignal)),
		asked("P14a re-driven start, two steps; 1 crash 1 expiry", 2, Budget{Redrive: 1, Crash: 1, Expiry: 1}),

		mixed("Q1 two steps; 1 loss 1 crash 1 expiry", 2, Budget{Loss: 1, Crash: 1, Expiry: 1}),
		mixed("Q1a two steps; 1 loss", 2, Budget{Loss: 1}),
		mixed("Q1b two steps; 1 crash 1 expiry", 2, Budget{Crash: 1, Expiry: 1}),
		mixed("Q1c one step; 1 loss 2 crashes 1 expiry", 1, Budget{Loss: 1, Crash: 2, Expiry: 1}),
		mixed("Q1d two steps; 1 crash", 2, Budget{Crash: 1}),
		mixed("Q1e two steps; 1 expiry", 2, Budget{Expiry: 1}),
		twice(mixed("Q2 duplicate start, two steps; 1 crash", 2, Budget{Crash: 1})),
		twice(mixed("Q2a duplicate start, one step; 1 loss 1 crash", 1, Budget{Loss: 1, Crash: 1})),
		signal(mixed("Q3 neutral signal, two steps", 2, Budget{}), NeutralSignal),
		signal(mixed("Q3a neutral signal, one step; 1 loss 1 crash", 1, Budget{Loss: 1, Crash: 1}), NeutralSignal),
		signal(mixed("Q3b neutral signal, two steps; 1 crash", 2, Budget{Crash: 1}), NeutralSignal),
		signal(asked("Q3d neutral signal, two steps asked inline, one let go", 2, Budget{LetGo: 1}), NeutralSignal),
		signal(mixed("Q4 asking signal, one step", 1, Budget{}), AskingSignal),
		signal(mixed("Q4a asking signal, one step; 1 crash", 1, Budget{Crash: 1}), AskingSignal),
		signal(asked("Q4b asking signal, one step asked inline, one let go", 1, Budget{LetGo: 1}), AskingSignal),
		signal(mixed("Q5a cancelling signal, one step; 1 crash", 1, Budget{Crash: 1}), CancellingSignal),
		signal(mixed("Q5 cancelling signal, one step; 1 loss 1 crash", 1, Budget{Loss: 1, Crash: 1}), CancellingSignal),
		signal(mixed("Q5b cancelling signal, two steps; 1 crash", 2, Budget{Crash: 1}), CancellingSignal),
		signal(mixed("Q6 compensating signal, one step; 1 loss", 1, Budget{Loss: 1}), CompensatingSignal),
		signal(mixed("Q6b compensating signal, one step; 1 crash 1 expiry", 1, Budget{Crash: 1, Expiry: 1}), CompensatingSignal),
		signal(mixed("Q6c compensating signal, one step", 1, Budget{}), CompensatingSignal),
		signal(asked("Q6d compensating signal, asked inline, one let go; 1 crash", 1, Budget{LetGo: 1, Crash: 1}), CompensatingSignal),
		signal(asked("Q6e compensating signal, asked inline, one let go", 1, Budget{LetGo: 1}), CompensatingSignal),
		twice(signal(mixed("Q7 duplicate start, neutral signal, one step; 1 crash", 1, Budget{Crash: 1}), NeutralSignal)),
		mixed("Q8 three steps; 1 crash", 3, Budget{Crash: 1}),
		mixed("Q8a three steps; 1 expiry", 3, Budget{Expiry: 1}),
		mixed("Q8b three steps; 1 loss", 3, Budget{Loss: 1}),
		mixed("Q8c three steps", 3, Budget{}),
		sweep(asked("Q8d three steps asked inline, sweeper; 1 crash", 3, Budget{Sweep: 1, Crash: 1})),
		mixed("Q9 drain and letting go, two steps", 2, Budget{Stop: 1, LetGo: 1}),
		mixed("Q9b drain, two steps; 1 crash", 2, Budget{Stop: 1, Crash: 1}),
		mixed("Q9c letting go twice, two steps; 1 expiry", 2, Budget{LetGo: 2, Expiry: 1}),
		signal(mixed("Q10 drain, cancelling signal, one step", 1, Budget{Stop: 1}), CancellingSignal),
		sweep(mixed("Q11 sweeper, two steps; 1 expiry", 2, Budget{Sweep: 1, Expiry: 1})),
		sweep(mixed("Q11a sweeper, one step; 1 loss 1 crash 1 expiry", 1, Budget{Sweep: 1, Loss: 1, Crash: 1, Expiry: 1})),
		sweep(mixed("Q11b sweeper, two steps; 1 crash", 2, Budget{Sweep: 1, Crash: 1})),
		sweep(mixed("Q11c sweeper, two steps; 1 loss", 2, Budget{Sweep: 1, Loss: 1})),
		sweep(asked("Q11d sweeper twice, two steps asked inline; 1 crash 1 expiry", 2, Budget{Sweep: 2, Crash: 1, Expiry: 1})),
		sweep(asked("Q11e sweeper, three steps asked inline; 1 crash 1 expiry", 3, Budget{Sweep: 1, Crash: 1, Expiry: 1})),
		stale(mixed("Q12 late append, 2 forgotten acks, stale reads, one step; 1 loss 1 crash", 1, Budget{Late: 1, Unack: 2, Loss: 1, Crash: 1})),
		stale(mixed("Q12a late append, 1 forgotten ack, stale reads, two steps", 2, Budget{Late: 1, Unack: 1})),
		stale(signal(mixed("Q13 as Q12a, neutral signal, one step; 1 crash", 1, Budget{Late: 1, Unack: 1, Crash: 1}), NeutralSignal)),
		mixed("Q14 re-driven start, two steps; 1 crash 1 expiry", 2, Budget{Redrive: 1, Crash: 1, Expiry: 1}),
		mixed("Q14a re-driven start, one step; 1 loss 1 crash 1 expiry", 1, Budget{Redrive: 1, Loss: 1, Crash: 1, Expiry: 1}),

		signal(asked("Z1 paused and resumed, one step asked inline; 1 crash", 1, Budget{Crash: 1}), PausingSignal),
		signal(asked("Z2 paused and resumed, two steps asked inline", 2, Budget{}), PausingSignal),
		signal(mixed("Z3 paused and resumed, one step", 1, Budget{}), PausingSignal),
		signal(asked("Z4 paused and resumed, one step asked inline; 1 loss 1 expiry", 1, Budget{Loss: 1, Expiry: 1}), PausingSignal),

		signal(asked("U1 unwinding signal, one step; 1 crash", 1, Budget{Crash: 1}), UnwindingSignal),
		signal(mixed("U2 unwinding signal, one step", 1, Budget{}), UnwindingSignal),
		signal(asked("U3 unwinding signal, two steps", 2, Budget{}), UnwindingSignal),
		signal(asked("U4 unwinding signal, one step; 2 failures", 1, Budget{Failure: 2}), UnwindingSignal),

		asked("F1a 2 failures, one step; 1 crash", 1, Budget{Failure: 2, Crash: 1}),
		asked("F1b 2 failures, one step; 1 loss", 1, Budget{Failure: 2, Loss: 1}),
		asked("F1c 2 failures, one step; 1 expiry", 1, Budget{Failure: 2, Expiry: 1}),
		asked("F1d 2 failures, one step; 1 crash 1 expiry", 1, Budget{Failure: 2, Crash: 1, Expiry: 1}),
		mixed("F2a 2 failures, one step", 1, Budget{Failure: 2}),
		asked("F3a 2 failures, two steps", 2, Budget{Failure: 2}),
		asked("F3b 1 failure, two steps; 1 expiry", 2, Budget{Failure: 1, Expiry: 1}),
		asked("F3c 1 failure, two steps; 1 crash 1 expiry", 2, Budget{Failure: 1, Crash: 1, Expiry: 1}),
		mixed("F3d 1 failure, two steps; 1 expiry", 2, Budget{Failure: 1, Expiry: 1}),
		signal(asked("F5 1 failure, cancelling signal, one step", 1, Budget{Failure: 1}), CancellingSignal),
		signal(asked("F6 1 failure, compensating signal, one step", 1, Budget{Failure: 1}), CompensatingSignal),
		sweep(asked("F7 1 failure, sweeper, one step; 1 crash", 1, Budget{Failure: 1, Sweep: 1, Crash: 1})),
		asked("F8 1 failure, drain, one step; 1 crash", 1, Budget{Failure: 1, Stop: 1, Crash: 1}),
		asked("F9 1 failure, letting go, one step; 1 expiry", 1, Budget{Failure: 1, LetGo: 1, Expiry: 1}),
		stale(asked("F12 1 failure, late append, forgotten ack, stale reads, one step", 1, Budget{Failure: 1, Late: 1, Unack: 1})),
	}
}
