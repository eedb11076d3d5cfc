// Package natsapi carries the control API over NATS.
//
// It is a micro service named pawl, with one instance per worker, all in the
// queue group pawl-api: a request is answered by any of them, from the streams
// and the index, so it does not matter by which. Requests and answers are JSON;
// package api has their types.
//
//	<prefix>.api.<role>.<noun>.<verb>             who asks is not verified
//	<prefix>.api.as.<user>.<role>.<noun>.<verb>   who asks is <user>
//
// What a user may do is decided by the server: permissions to publish to
// pawl.api.view.> make a reader, to pawl.api.as.anna.> make somebody whose name
// stands in the records of what she does. Whoever comes by the first form is
// recorded as unverified:<the name they give>. A hook of the process may refuse
// more.
//
// <user> is only as good as the server's permissions. The service believes the
// subject: where users may publish to pawl.api.as.*.> or pawl.api.>, as they may
// where no permissions are set, each of them can be any other.
//
// What a worker needs itself is in natsqueue/DESIGN.md.
//
// # Rules
//
//   - An answer has at most 512 KB, or what the server takes if that is less.
//     Lists are paged. What is larger says that it is truncated, or is an error
//     of class too_large; it is never silence.
//   - An error is an answer with the headers Nats-Service-Error-Code (as in
//     HTTP) and Nats-Service-Error, and a body {"error", "class"}. 503 means:
//     ask again.
//   - A field that is not known, a value of another type, a number out of its
//     bounds are each a 400 that says what is wrong, and nothing was done.
//   - Every change is a message with the caller's id: of the run, the signal,
//     the request. Asking again with the same id changes nothing more, so a
//     request without an answer is simply made again. An id is made for who
//     gives none; then asking again is another request.
//   - "accepted" is a promise that it will be applied, not that it was: the
//     message is stored. Everything else an outcome says was read from the
//     record that has it.
//   - A wait is answered within 30 s. It costs the server a subscription and a
//     few reads, not a poll, so hundreds may hang.
//   - Requests of one kind that are too many at once are answered 503 busy;
//     reads never wait behind waits, nor changes behind reads.
//   - While a process stops, it takes no more requests, and those that wait are
//     answered with what there is.
//
// Of the statistics that micro keeps, only the number of requests says what it
// seems to: requests are answered apart from where they are counted. The data
// of each endpoint has what the worker does.
package natsapi
