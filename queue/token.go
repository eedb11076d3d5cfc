package queue

// Token is how a run id appears in a subject or a key: the id itself where it
// matches [A-Za-z0-9_=:@+-]{1,128}, else "~" and base64url of it where that
// has at most 128 characters, else "~~" and the hex of its SHA-256. Two ids
// never share a token; a hashed token cannot be turned back.
func Token(run string) string { panic("seam") }

// Untoken returns the run id of a token. ok is false for a hashed token and
// for what is no token; then the id must come from a header.
func Untoken(token string) (run string, ok bool) { panic("seam") }

// CheckRun says what is wrong with a run id: empty, over 256 bytes, or not
// UTF-8.
func CheckRun(run string) error { panic("seam") }

// Partitions is how many shares the runs are divided into, for ever.
const Partitions = 256

// Partition is the share of a run: FNV-1a (32 bit) of its token, mod
// Partitions. It is part of its subjects and the hash tag of its Redis keys.
func Partition(token string) int { panic("seam") }
