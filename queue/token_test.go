package queue

import (
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// tokens is the alphabet of §2.4: no dot, star, angle, space, brace or slash
// ever reaches a subject, a key or a file name.
var tokens = regexp.MustCompile(`^(~|~~)?[A-Za-z0-9_=:@+-]*$`)

func TestToken(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, run, want string
	}{
		{"plain", "order-4711", "order-4711"},
		{"whole class", "AZaz09_=:@+-", "AZaz09_=:@+-"},
		{"128 literal characters", strings.Repeat("a", 128), strings.Repeat("a", 128)},
		{"129 literal characters", strings.Repeat("a", 129), "~~c12cb024a2e5551cca0e08fce8f1c5e314555cc3fef6329ee994a3db752166ae"},
		{"empty", "", "~"},
		{"placeholder of signals", "_", "~Xw"},
		{"two underscores", "__", "__"},
		{"dot", "a.b", "~YS5i"},
		{"star", "*", "~Kg"},
		{"angle", ">", "~Pg"},
		{"brace", "}", "~fQ"},
		{"space", " ", "~IA"},
		{"NUL", "\x00", "~AA"},
		{"tilde", "~", "~fg"},
		{"what looks escaped", "~Kg", "~fktn"},
		{"Chinese", "订单一", "~6K6i5Y2V5LiA"},
		{"not UTF-8", "\xff", "~_w"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := Token(tt.run)
			if got != tt.want {
				t.Fatalf("Token(%q) = %q, want %q", tt.run, got, tt.want)
			}
			if back, ok := Untoken(got); ok && back != tt.run || ok == strings.HasPrefix(got, hashed) {
				t.Fatalf("Untoken(%q) = %q, %v, want %q", got, back, ok, tt.run)
			}
		})
	}
}

func TestTokenIsEscapedUpTo95Bytes(t *testing.T) {
	t.Parallel()
	for n, prefix := range map[int]string{94: escaped, 95: escaped, 96: hashed, 256: hashed} {
		got := Token(strings.Repeat(".", n))
		if !strings.HasPrefix(got, prefix) || strings.HasPrefix(got, hashed) != (prefix == hashed) {
			t.Errorf("Token(%d dots) = %q, want it to begin with %q", n, got, prefix)
		}
		if len(got) > maxToken {
			t.Errorf("Token(%d dots) has %d characters, over %d", n, len(got), maxToken)
		}
	}
}

func TestUntokenRefuses(t *testing.T) {
	t.Parallel()
	for name, token := range map[string]string{
		"nothing":                  "",
		"placeholder":              "_",
		"dot":                      "a.b",
		"hashed":                   Token(strings.Repeat("a", 129)),
		"129 literal characters":   strings.Repeat("a", 129),
		"padding":                  "~Kg==",
		"stray bits":               "~Kh",
		"line break":               "~K\ng",
		"escaped though literal":   "~b3JkZXI",
		"escaped though too long":  "~" + strings.Repeat("Li4u", 32),
		"standard alphabet":        "~/w",
		"tilde in the middle":      "a~b",
		"hash prefix without hash": "~~",
	} {
		if run, ok := Untoken(token); ok {
			t.Errorf("%s: Untoken(%q) = %q, want it refused", name, token, run)
		}
	}
}

func FuzzToken(f *testing.F) {
	for _, s := range []string{"", "_", "a", "a.b", "*", "}", "\x00", "~", "~~", "~Kg", "订单", "\xff\xfe", strings.Repeat("a", 128), strings.Repeat("é", 200)} {
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		ta, tb := Token(a), Token(b)
		if (ta == tb) != (a == b) {
			t.Fatalf("Token(%q) = %q, Token(%q) = %q", a, ta, b, tb)
		}
		if !tokens.MatchString(ta) || ta == "" || ta == placeholder || len(ta) > maxToken {
			t.Fatalf("Token(%q) = %q is no token", a, ta)
		}
		back, ok := Untoken(ta)
		if ok == strings.HasPrefix(ta, hashed) || ok && back != a {
			t.Fatalf("Untoken(%q) = %q, %v, want %q", ta, back, ok, a)
		}
		// Untoken must be strict: whatever it accepts, Token gives back.
		if run, ok := Untoken(a); ok && Token(run) != a {
			t.Fatalf("Untoken(%q) = %q, whose token is %q", a, run, Token(run))
		}
		if p := Partition(ta); p < 0 || p >= Partitions {
			t.Fatalf("Partition(%q) = %d", ta, p)
		}
	})
}

func TestCheckRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, run, want string
	}{
		{"plain", "a", ""},
		{"odd but fine", "*.>\x00}订", ""},
		{"256 bytes", strings.Repeat("a", 256), ""},
		{"empty", "", "run id is empty"},
		{"257 bytes", strings.Repeat("a", 257), "run id has 257 bytes, over 256"},
		{"257 bytes in fewer characters", strings.Repeat("é", 128) + "a", "run id has 257 bytes, over 256"},
		{"not UTF-8", "a\xff", "run id is not UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := CheckRun(tt.run); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Fatalf("CheckRun(%q) = %q, want %q", tt.run, got, tt.want)
			}
		})
	}
}

// TestPartitionIsForEver pins the hash: a run's subjects and keys never move.
func TestPartitionIsForEver(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]int{"": 197, "a": 44, "order-4711": 29, "~Kg": 123} {
		if got := Partition(token); got != want {
			t.Errorf("Partition(%q) = %d, want %d", token, got, want)
		}
	}
	counts := make([]int, Partitions)
	for i := range 100_000 {
		token := "run-" + strconv.Itoa(i)
		h := fnv.New32a()
		h.Write([]byte(token))
		p := Partition(token)
		if p != int(h.Sum32()%Partitions) {
			t.Fatalf("Partition(%q) = %d, want FNV-1a", token, p)
		}
		counts[p]++
	}
	for p, n := range counts {
		if n < 200 || n > 600 {
			t.Errorf("partition %d has %d of 100000 runs, want about 390", p, n)
		}
	}
}

func BenchmarkToken(b *testing.B) {
	for b.Loop() {
		Partition(Token("order-4711"))
	}
}
