package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/redisstore"
)

const redisNeeded = "6.2.0"

// redis examines Redis: alone, or each master of a cluster.
func (x *exam) redis(ctx context.Context) {
	if len(x.Redis.Addrs) == 0 {
		return
	}
	client, err := redisstore.Connect(ctx, x.Redis)
	if err != nil {
		text, fix := whyRedis(err)
		x.note(Fail, "redis", text, fix)
		return
	}
	defer func() { _ = client.Close() }()
	if c, ok := client.(*redis.ClusterClient); ok {
		x.cluster(ctx, c)
	} else {
		x.node(ctx, "redis", client)
	}
	x.lastOpened(ctx, client)
}

// whyRedis words an error of Redis, and says what to do about it.
func whyRedis(err error) (text, fix string) {
	text = strings.TrimPrefix(strings.TrimPrefix(oneLine(err.Error()), "connect to redis: "), "redis: ")
	switch {
	case strings.Contains(text, "NOPERM"):
		fix = "grant it to this user (ACL SETUSER), or examine as another"
	case strings.Contains(text, "NOAUTH"), strings.Contains(text, "WRONGPASS"):
		fix = "PAWL_REDIS_USERNAME and PAWL_REDIS_PASSWORD, or redis.password_file"
	case strings.Contains(text, "x509"):
		fix = "redis.tls.ca_file (PAWL_REDIS_TLS_CA_FILE) names who signed the server's certificate"
	case strings.Contains(text, "EOF"), strings.Contains(text, "first record does not look like a TLS handshake"):
		fix = "does one side speak TLS, and the other not? redis.tls.enabled (PAWL_REDIS_TLS_ENABLED)"
	case strings.Contains(text, "refused"), strings.Contains(text, "deadline"), strings.Contains(text, "timeout"), strings.Contains(text, "no such host"):
		fix = "is it running? --redis host:port names another"
	}
	return text, fix
}

// cluster examines the state of a cluster, and its masters.
func (x *exam) cluster(ctx context.Context, c *redis.ClusterClient) {
	info, err := c.ClusterInfo(ctx).Result()
	if err != nil {
		text, fix := whyRedis(err)
		x.note(Unknown, "redis cluster", text, fix)
	} else {
		v := fields(info)
		var f first
		f.when(v["cluster_state"] != "ok", Fail, "redis-cli --cluster check", "state %s, %s of 16384 slots served", v["cluster_state"], v["cluster_slots_ok"])
		f.when(v["cluster_slots_ok"] != "16384", Warn, "redis-cli --cluster check", "%s of 16384 slots served", v["cluster_slots_ok"])
		x.judge("redis cluster", f, "ok, %s masters", v["cluster_size"])
	}
	var mu sync.Mutex
	masters := map[string]*redis.Client{}
	_ = c.ForEachMaster(ctx, func(_ context.Context, n *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters[n.Options().Addr] = n
		return nil
	})
	for _, addr := range slices.Sorted(maps.Keys(masters)) {
		x.node(ctx, "redis "+addr, masters[addr])
	}
}

// fields splits what INFO answers.
func fields(info string) map[string]string {
	v := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			v[name] = value
		}
	}
	return v
}

// node examines one server.
func (x *exam) node(ctx context.Context, name string, c redis.UniversalClient) {
	var all []time.Duration
	for range trips {
		began := time.Now()
		if c.Ping(ctx).Err() == nil {
			all = append(all, time.Since(began))
		}
	}
	x.trip(name+" round trip", all)
	before := time.Now()
	if shown, err := c.Time(ctx).Result(); err == nil {
		x.clock(name+" clock", before, shown, time.Now())
	}
	info, err := c.Info(ctx).Result()
	v := fields(info)
	if err == nil && v["redis_version"] == "" {
		x.note(map[bool]Status{true: OK, false: Unknown}[x.Embedded], name, "it does not say what it is: a stand-in", "use Redis or Valkey: a stand-in forgets everything when it ends")
		return
	}
	if err != nil {
		text, fix := whyRedis(err)
		x.note(Unknown, name, text, fix)
		return
	}
	x.version(name, v)
	x.memory(name, v)
	x.persistence(ctx, name, c, v)
	if err := c.Eval(ctx, "return 1", nil).Err(); err != nil {
		text, fix := whyRedis(err)
		x.note(Fail, name+" scripts", text, fix)
	}
}

func (x *exam) version(name string, v map[string]string) {
	version, kind := v["redis_version"], "redis"
	if v["valkey_version"] != "" { // its redis_version is the one it is compatible with
		kind = "valkey " + v["valkey_version"] + ", as redis"
	}
	var f first
	f.when(!atLeast(version, redisNeeded), Fail, "update it: at least "+redisNeeded+" is needed", "%s %s", kind, version)
	f.when(v["role"] != "" && v["role"] != "master", Fail, "name the master: a replica takes no writes", "%s %s, a %s of %s", kind, version, v["role"], v["master_host"])
	x.judge(name+" version", f, "%s %s, %s", kind, version, v["redis_mode"])
}

// memory judges what happens when memory is used up.
func (x *exam) memory(name string, v map[string]string) {
	policy := v["maxmemory_policy"]
	limit, _ := strconv.ParseFloat(v["maxmemory"], 64)
	used, _ := strconv.ParseFloat(v["used_memory"], 64)
	machine, _ := strconv.ParseFloat(v["total_system_memory"], 64)
	const noeviction = "maxmemory-policy noeviction"
	var f first
	f.when(limit > 0 && strings.HasPrefix(policy, "allkeys"), Fail, noeviction, "%s: copies of live runs, and claims, are dropped", policy)
	f.when(policy != "" && policy != "noeviction", Warn, noeviction, "%s", policy)
	x.judge(name+" eviction", f, "%s", policy)

	bound := limit
	if limit <= 0 || machine > 0 && machine < limit {
		bound = machine
	}
	if bound <= 0 {
		return
	}
	var m first
	text := fmt.Sprintf("%s, %.0f %% of %s", size(int64(used)), share(used, bound), size(int64(bound)))
	m.when(share(used, bound) >= 90, Fail, "more memory, or a shorter retention.ended: when it is used up, no run moves", "%s", text)
	m.when(share(used, bound) >= 70, Warn, "more memory, or a shorter retention.ended", "%s", text)
	m.when(limit <= 0, Warn, "set maxmemory: without it, the kernel ends Redis when the machine has no more", "%s of the machine, no maxmemory", text)
	x.judge(name+" memory", m, "%s", text)
}

// persistence judges what is left after a restart. Redis holds copies, which
// are made anew from HISTORY; what a loss costs is time, and claims.
func (x *exam) persistence(ctx context.Context, name string, c redis.UniversalClient, v map[string]string) {
	check := name + " persistence"
	aof := v["aof_enabled"] == "1"
	var f first
	f.when(aof && v["aof_last_write_status"] == "err", Fail, "free its disk: it takes no writes", "the last write to the append-only file failed")
	f.when(v["rdb_last_bgsave_status"] == "err", Fail, "free its disk, or its memory: it may take no writes", "the last save failed")
	f.when(!aof, Warn, "appendonly yes, appendfsync everysec: after a restart all runs are read from HISTORY, and who performs which effect is forgotten", "no append-only file")
	if f.status != "" {
		x.judge(check, f, "")
		return
	}
	got, err := c.ConfigGet(ctx, "appendfsync").Result()
	if err != nil || got["appendfsync"] == "" {
		text := "append-only file; how often it is synced is not told"
		if err != nil {
			why, _ := whyRedis(err)
			text += ": " + why
		}
		x.note(Unknown, check, text, "check appendfsync: everysec")
		return
	}
	f.when(got["appendfsync"] == "no", Warn, "appendfsync everysec", "append-only file, synced when the kernel likes")
	f.when(v["loading"] == "1", Warn, "wait", "it is still reading its file")
	x.judge(check, f, "append-only file, synced %s", got["appendfsync"])
}

// lastOpened compares the incarnation that Redis holds copies of.
func (x *exam) lastOpened(ctx context.Context, c redis.UniversalClient) {
	have, err := redisstore.LastOpened(ctx, c, x.Topology.Prefix)
	switch {
	case err != nil: // a worker reads it, too
		text, fix := whyRedis(err)
		x.note(Fail, "incarnation", text, fix)
	case x.incarnation == "":
		if !errors.Is(ctx.Err(), context.Canceled) && have != "" {
			x.note(Unknown, "incarnation", "Redis has copies of "+have+"; that of HISTORY could not be read", "see to NATS first")
		}
	case have == "":
		x.note(OK, "incarnation", x.incarnation+"; Redis is empty", "")
	case have != x.incarnation:
		x.note(Fail, "incarnation", fmt.Sprintf("HISTORY is %s, Redis was last used with %s", x.incarnation, have),
			"do two fleets share this Redis? give one another prefix; if HISTORY was made anew, restart the workers")
	default:
		x.note(OK, "incarnation", x.incarnation+", in HISTORY and Redis", "")
	}
}
