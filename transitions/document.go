package transitions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/pawlrun/pawl/statemachine"
)

// maxDocument is how many bytes of JSON a document's text may be: it becomes
// part of a run's data, which may have 100 KB.
const maxDocument = 64 << 10

// source says where a document is: exactly one field is set.
type source struct {
	Text string `json:"text,omitempty"` // here
	URL  string `json:"url,omitempty"`  // http or https, on an allowed host
	File string `json:"file,omitempty"` // below the folder for files
}

// document is the result of doc.fetch.
type document struct {
	Source string `json:"source"` // "input", or the URL without its query, or the name of the file
	Text   string `json:"text,omitempty"`
	Words  int    `json:"words"`
}

func (s source) validate() error {
	set := 0
	for _, field := range []string{s.Text, s.URL, s.File} {
		if field != "" {
			set++
		}
	}
	if set != 1 {
		return errors.New("a source has exactly one of text, url and file")
	}
	return nil
}

// library performs doc.fetch.
type library struct {
	web   *caller
	files folder
}

func (l library) fetch(ctx context.Context, _ string, s source) (document, error) {
	if err := s.validate(); err != nil {
		return document{}, invalid(err)
	}
	var d document
	var text []byte
	var err error
	switch {
	case s.Text != "":
		d.Source, text = "input", []byte(s.Text)
	case s.File != "":
		d.Source = s.File
		text, err = l.files.read(s.File, maxDocument)
	default:
		d.Source, _, _ = strings.Cut(s.URL, "?")
		header := http.Header{"Accept": {"text/plain, text/*;q=0.9, */*;q=0.5"}}
		text, _, err = l.web.do(ctx, call{method: http.MethodGet, url: s.URL, header: header, limit: maxDocument})
	}
	if err != nil {
		return document{}, asDocument(err)
	}
	if !utf8.Valid(text) {
		return document{}, statemachine.Terminal("not_text", fmt.Errorf("%s is not UTF-8 text", d.Source))
	}
	d.Text = string(text)
	encoded, err := json.Marshal(d.Text)
	if err != nil {
		return document{}, err
	}
	if len(encoded) > maxDocument {
		return document{}, statemachine.Terminal("document_too_large",
			fmt.Errorf("%s has more than %d bytes of text", d.Source, maxDocument))
	}
	d.Words = len(strings.Fields(d.Text))
	return d, nil
}

// asDocument gives a refusal of the web the class that a document's reader
// would look for.
func asDocument(err error) error {
	if s, ok := errors.AsType[*statusError](err); ok && (s.code == http.StatusNotFound || s.code == http.StatusGone) {
		return statemachine.Terminal("not_found", err)
	}
	if statemachine.ClassOf(err) == "response_too_large" {
		return statemachine.Terminal("document_too_large", err)
	}
	return err
}

// invalid is the failure of an effect whose input cannot be performed: trying
// again would not help.
func invalid(err error) error { return statemachine.Terminal("invalid_input", err) }
