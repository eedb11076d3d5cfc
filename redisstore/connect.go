package redisstore

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Config says how to reach Redis.
type Config struct {
	// Addrs are host:port, or one path of a unix socket; required. One
	// address is asked whether it is a node of a cluster; several are nodes
	// of a cluster, or Sentinels if MasterName is set.
	Addrs []string
	// MasterName is the name of the master that Sentinels watch.
	MasterName string
	// Username and the content of PasswordFile are the credentials. The file
	// is read anew for each connection, so it may be rotated.
	Username     string
	PasswordFile string
	// Password stands in for the file where there is none.
	Password string
	// TLS switches it on; CAFile, CertFile and KeyFile are PEM files, each
	// optional.
	TLS      bool
	CAFile   string
	CertFile string
	KeyFile  string
	// DB is the database number. Default 0; a cluster has no other.
	DB int
	// PoolSize bounds the connections to a server. Default 10 per core.
	PoolSize int
	// Timeout bounds each dial, read and write. Default 3 s.
	Timeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = 3 * time.Second
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if len(c.Addrs) == 0 {
		errs = append(errs, errors.New("no address"))
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		errs = append(errs, errors.New("a certificate needs its key, and a key its certificate"))
	}
	if !c.TLS && (c.CAFile != "" || c.CertFile != "") {
		errs = append(errs, errors.New("certificates without TLS"))
	}
	return errors.Join(errs...)
}

// Connect returns a client of the Redis that c names, which answered. The
// client repeats nothing by itself: who asks decides what to do after an
// error.
func Connect(ctx context.Context, c Config) (redis.UniversalClient, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("connect to redis: %w", err)
	}
	opts, err := c.options()
	if err != nil {
		return nil, fmt.Errorf("connect to redis: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if len(c.Addrs) == 1 && c.MasterName == "" {
		if opts.IsClusterMode, err = isCluster(ctx, opts); err != nil {
			return nil, fmt.Errorf("connect to redis: %w", wrap(ctx, err))
		}
	}
	client := redis.NewUniversalClient(opts)
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("connect to redis: %w", wrap(ctx, err))
	}
	return client, nil
}

func (c Config) options() (*redis.UniversalOptions, error) {
	opts := &redis.UniversalOptions{
		Addrs:                    c.Addrs,
		MasterName:               c.MasterName,
		DB:                       c.DB,
		PoolSize:                 c.PoolSize,
		DialTimeout:              c.Timeout,
		ReadTimeout:              c.Timeout,
		WriteTimeout:             c.Timeout,
		ContextTimeoutEnabled:    true,
		MaxRetries:               -1,
		DialerRetries:            1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if c.Username != "" || c.PasswordFile != "" || c.Password != "" {
		if _, _, err := c.credentials(context.Background()); err != nil {
			return nil, err
		}
		opts.CredentialsProviderContext = c.credentials
	}
	if c.TLS {
		var err error
		if opts.TLSConfig, err = c.tls(); err != nil {
			return nil, err
		}
	}
	return opts, nil
}

func (c Config) credentials(context.Context) (username, password string, err error) {
	if c.PasswordFile == "" {
		return c.Username, c.Password, nil
	}
	b, err := os.ReadFile(c.PasswordFile)
	if err != nil {
		return "", "", fmt.Errorf("read password: %w", err)
	}
	return c.Username, string(bytes.TrimRight(b, "\r\n")), nil
}

func (c Config) tls() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read certificate authority: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read certificate authority: %s has no certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read certificate: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// isCluster asks a server whether it is a node of a cluster. One that does
// not know the question is none.
func isCluster(ctx context.Context, opts *redis.UniversalOptions) (bool, error) {
	one := redis.NewClient(opts.Simple())
	defer func() { _ = one.Close() }()
	info, err := one.Info(ctx, "cluster").Result()
	var answer redis.Error
	if errors.As(err, &answer) && !unavailable(err) {
		return false, nil
	}
	return strings.Contains(info, "cluster_enabled:1"), err
}
