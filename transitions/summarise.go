package transitions

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawlrun/pawl/statemachine"
)

// text is the input of text.summarise.
type text struct {
	Text      string `json:"text"`
	Sentences int    `json:"sentences,omitempty"` // at most; default 3
}

// summary is its result.
type summary struct {
	Text      string `json:"text"`
	Sentences int    `json:"sentences"` // of the text
}

// summarise performs text.summarise: it picks the sentences whose words are
// the most frequent in the text, and leaves them in their order. The same text
// has the same summary, on every machine.
//
// Who watches the run sees the summary come, a sentence at a time.
func summarise(ctx context.Context, _ string, in text) (summary, error) {
	sentences := splitSentences(in.Text)
	if len(sentences) == 0 {
		return summary{}, invalid(errors.New("there is no text to summarise"))
	}
	n := in.Sentences
	if n <= 0 {
		n = 3
	}
	n = min(n, len(sentences))

	frequency := make(map[string]int)
	for _, s := range sentences {
		for _, w := range longWords(s) {
			frequency[w]++
		}
	}
	order := make([]int, len(sentences))
	score := make([]int, len(sentences))
	for i, s := range sentences {
		order[i] = i
		words := longWords(s)
		for _, w := range words {
			score[i] += 1000 * frequency[w]
		}
		// A long sentence is no better for being long, but a heading of one
		// frequent word is no summary either.
		score[i] /= max(len(words), 5)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	chosen := order[:n]
	slices.Sort(chosen)
	picked := make([]string, n)
	for i, c := range chosen {
		picked[i] = sentences[c]
		// A sentence that is too large to be told is in the summary all the same.
		_ = statemachine.Progress(ctx, picked[i]+" ")
	}
	return summary{Text: strings.Join(picked, " "), Sentences: len(sentences)}, nil
}

// splitSentences cuts a text after a full stop, question mark or exclamation
// mark that is followed by white space, and at empty lines.
func splitSentences(s string) []string {
	var sentences []string
	for paragraph := range strings.SplitSeq(strings.ReplaceAll(s, "\r\n", "\n"), "\n\n") {
		var sentence []string
		for word := range strings.FieldsSeq(paragraph) {
			sentence = append(sentence, word)
			if endsSentence(word) {
				sentences = append(sentences, strings.Join(sentence, " "))
				sentence = nil
			}
		}
		if len(sentence) > 0 {
			sentences = append(sentences, strings.Join(sentence, " "))
		}
	}
	return sentences
}

// endsSentence tells the end of a sentence from an initial such as "J.".
func endsSentence(word string) bool {
	stem := strings.TrimRight(word, `"')]»”’`)
	if strings.HasSuffix(stem, "!") || strings.HasSuffix(stem, "?") {
		return true
	}
	stem, found := strings.CutSuffix(stem, ".")
	return found && utf8.RuneCountInString(stem) > 1
}

// longWords are the words of four letters and more, in lower case: the short
// ones are in every sentence.
func longWords(s string) []string {
	var words []string
	for w := range strings.FieldsFuncSeq(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if utf8.RuneCountInString(w) >= 4 {
			words = append(words, w)
		}
	}
	return words
}
