package transitions

import (
	"errors"

	"github.com/pawlrun/pawl/statemachine"
)

// reportData is what a run of "report" is about. The first four fields are its
// input.
type reportData struct {
	Source    source `json:"source"`
	To        string `json:"to"`
	Subject   string `json:"subject,omitempty"`
	Sentences int    `json:"sentences,omitempty"` // of the summary; default 3

	Document *document `json:"document,omitempty"`
	Summary  *summary  `json:"summary,omitempty"`
	Receipt  *receipt  `json:"receipt,omitempty"`
}

// report fetches a document, summarises it and sends the summary by e-mail.
func report() *statemachine.Machine[reportData] {
	m := statemachine.New[reportData]("report", 1)
	m.Index("to", (*reportData).address)
	m.State("fetch", statemachine.Call(docFetch, (*reportData).where, (*reportData).fetched).Flow((*reportData).host)).
		Catch("not_found", "unreadable").Catch("not_text", "unreadable").Catch("document_too_large", "unreadable")
	m.State("summarise", statemachine.Call(textSummarise, (*reportData).text, (*reportData).summarised)).
		Catch("invalid_input", "unreadable")
	m.State("email", statemachine.Call(emailSend, (*reportData).letter, (*reportData).sent)).Then("done")
	m.Succeed("done")
	m.Fail("unreadable", "unreadable_document")
	return m
}

// Validate says what is wrong with the input.
func (r *reportData) Validate() error {
	var faults []error
	if err := r.Source.validate(); err != nil {
		faults = append(faults, errors.New("source: "+err.Error()))
	}
	if err := checkAddress(r.To); err != nil {
		faults = append(faults, errors.New("to: "+err.Error()))
	}
	if r.Sentences < 0 || r.Sentences > 100 {
		faults = append(faults, errors.New("sentences: it must be 1 to 100, or be left out"))
	}
	if r.Document != nil || r.Summary != nil || r.Receipt != nil {
		faults = append(faults, errors.New("document, summary and receipt are results: they cannot be given"))
	}
	return errors.Join(faults...)
}

func (r *reportData) address() string { return r.To }

func (r *reportData) host() string { return flowHost(r.Source.URL) }

func (r *reportData) where() source { return r.Source }

func (r *reportData) fetched(d document) {
	r.Document = &d
	// The text is carried once, and only as long as it is needed: the run's
	// first record keeps the input for good.
	r.Source.Text = ""
}

func (r *reportData) text() text { return text{Text: r.Document.Text, Sentences: r.Sentences} }

func (r *reportData) summarised(s summary) {
	r.Summary = &s
	r.Document.Text = ""
}

func (r *reportData) letter() letter {
	subject := r.Subject
	if subject == "" {
		subject = "Summary of " + r.Document.Source
	}
	return letter{To: r.To, Subject: subject, Body: r.Summary.Text}
}

func (r *reportData) sent(c receipt) { r.Receipt = &c }
