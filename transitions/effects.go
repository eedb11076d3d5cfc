package transitions

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/pawlrun/pawl/statemachine"
)

// The effects this fleet ships.
const (
	docFetch      statemachine.Effect[source, document]                 = "doc.fetch"
	textSummarise statemachine.Effect[text, summary]                    = "text.summarise"
	invoiceTotals statemachine.Effect[bill, totals]                     = "invoice.totals"
	ledgerPost    statemachine.Effect[posting, posted]                  = "ledger.post"
	travelBook    statemachine.Effect[order, booking]                   = "travel.book"
	travelCancel  statemachine.Effect[cancellation, cancelled]          = "travel.cancel"
	emailSend     statemachine.Effect[letter, receipt]                  = "email.send"
	httpPost      statemachine.Effect[post, json.RawMessage]            = "http.post"
	fileAppend    statemachine.Effect[json.RawMessage, json.RawMessage] = "file.append"
	logEffect     statemachine.Effect[json.RawMessage, json.RawMessage] = "log"
	noop          statemachine.Effect[json.RawMessage, json.RawMessage] = "noop"
)

// maxLogged is how many bytes of an input the effect "log" writes.
const maxLogged = 4 << 10

// doNothing performs noop: the result is the input.
func doNothing(_ context.Context, _ string, input json.RawMessage) (json.RawMessage, error) {
	if len(input) == 0 || string(input) == "null" {
		return json.RawMessage(`{}`), nil
	}
	return input, nil
}

// writeLog returns what performs log: it writes its input to the worker's log.
// The key is in the line, so a line that stands there twice can be told from
// two lines.
func writeLog(to *slog.Logger) func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, key string, input json.RawMessage) (json.RawMessage, error) {
		shown := string(input)
		if len(shown) > maxLogged {
			shown = shown[:maxLogged] + "…"
		}
		to.InfoContext(ctx, "run logged", "key", key, "input", shown)
		return json.RawMessage(`{}`), nil
	}
}
