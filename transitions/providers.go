package transitions

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
)

// posting is the input of ledger.post.
type posting struct {
	Invoice  string `json:"invoice"`
	Customer string `json:"customer"`
	Currency string `json:"currency"`
	Subtotal cents  `json:"subtotal"`
	Tax      cents  `json:"tax"`
	Total    cents  `json:"total"`
}

// posted is its result.
type posted struct {
	Entry string `json:"entry"` // the ledger's number for it
}

// letter is the input of email.send.
type letter struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Body    string `json:"body"`
}

// receipt is its result.
type receipt struct {
	ID string `json:"id"` // the provider's number for it
	To string `json:"to"`
}

// ledger stands for an accounting system.
type ledger struct{ book *book }

func (l ledger) post(_ context.Context, key string, p posting) (posted, error) {
	number, _, err := l.book.write(key, p)
	if err != nil {
		return posted{}, err
	}
	return posted{Entry: fmt.Sprintf("entry-%06d", number)}, nil
}

// postOffice stands for a mail provider.
type postOffice struct {
	book *book

	mu  sync.Mutex
	out io.Writer
}

func (o *postOffice) send(_ context.Context, key string, m letter) (receipt, error) {
	if err := checkAddress(m.To); err != nil {
		return receipt{}, invalid(err)
	}
	number, fresh, err := o.book.write(key, m)
	if err != nil {
		return receipt{}, err
	}
	if fresh {
		o.mu.Lock()
		defer o.mu.Unlock()
		// Showing it is for people: what cannot be shown was sent all the same.
		_, _ = fmt.Fprintf(o.out, "e-mail to %s: %s\n    %s\n", m.To, m.Subject, firstLine(m.Body))
	}
	return receipt{ID: fmt.Sprintf("mail-%06d", number), To: m.To}, nil
}

// checkAddress refuses what no mail provider would take. It is not a parser of
// addresses: the provider has the last word.
func checkAddress(a string) error {
	if a == "" {
		return fmt.Errorf("an e-mail address is missing")
	}
	local, domain, ok := strings.Cut(a, "@")
	strange := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`@<>(),;:"`, r)
	}
	if !ok || local == "" || domain == "" || len(a) > 254 || strings.ContainsFunc(local, strange) || strings.ContainsFunc(domain, strange) {
		return fmt.Errorf("%q is no e-mail address", a)
	}
	return nil
}

func firstLine(s string) string {
	line, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	if more {
		line += " …"
	}
	return line
}
