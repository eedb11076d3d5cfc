package transitions

import (
	"slices"
	"strings"
	"testing"
)

func TestSummarise(t *testing.T) {
	t.Parallel()
	const story = "Pumps move water. The weather was nice. Old pumps move less water than new pumps do! Somebody whistled."
	tests := []struct {
		name string
		in   text
		want summary
		ok   bool
	}{
		{"the frequent words win, in the text's order", text{story, 2}, summary{"Pumps move water. Old pumps move less water than new pumps do!", 4}, true},
		{"more than there is", text{"One is enough.", 9}, summary{"One is enough.", 1}, true},
		{"three by default", text{"Aaaa. Bbbb. Cccc. Dddd.", 0}, summary{"Aaaa. Bbbb. Cccc.", 4}, true},
		{"ties go to the first", text{"Alpha beta. Gamma delta.", 1}, summary{"Alpha beta.", 2}, true},
		{"nothing", text{" \n ", 1}, summary{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := summarise(t.Context(), "k", tt.in)
			if got != tt.want || (err == nil) != tt.ok {
				t.Errorf("summarise = %+v, %v, want %+v, ok %v", got, err, tt.want, tt.ok)
			}
		})
	}
}

func TestSplitSentences(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want []string
	}{
		{"It costs 3.50 today. Really?", []string{"It costs 3.50 today.", "Really?"}},
		{"Bought of J. Doe & Co. yesterday", []string{"Bought of J. Doe & Co.", "yesterday"}},
		{"A heading\r\n\r\nA text\nof two lines.", []string{"A heading", "A text of two lines."}},
		{`He said "no." She left.`, []string{`He said "no."`, "She left."}},
		{"...", []string{"..."}},
		{"", nil},
	}
	for _, tt := range tests {
		if got := splitSentences(tt.in); !slices.Equal(got, tt.want) {
			t.Errorf("splitSentences(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func FuzzSummarise(f *testing.F) {
	f.Add("Pumps move water. The weather was nice.", 1)
	f.Fuzz(func(t *testing.T, s string, n int) {
		a, errA := summarise(t.Context(), "k", text{s, n})
		b, errB := summarise(t.Context(), "k", text{s, n})
		if a != b || (errA == nil) != (errB == nil) {
			t.Fatalf("summarise(%q, %d) = %+v, then %+v", s, n, a, b)
		}
		for word := range strings.FieldsSeq(a.Text) {
			if !strings.Contains(s, word) {
				t.Fatalf("summarise(%q, %d) made up %q", s, n, word)
			}
		}
	})
}
