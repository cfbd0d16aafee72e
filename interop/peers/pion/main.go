// A peer for Lightseal's tests: DTLS 1.2 with a pre-shared key or certificates, implemented by pion.
//
//	serve ADDR    echoes what it receives
//	connect ADDR  sends each line of its standard input; after the line "reconnect" it connects again
//
// It prints one line for each event: "ready PORT", "connected SUITE send N receive N" (the lengths
// of the connection IDs that it sends and receives with, 0 for none), "received TEXT". It ends when
// its standard input ends.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/pion/dtls/v3/pkg/crypto/elliptic"
)

const (
	handshakeTimeout = 60 * time.Second
	datagramBytes    = 65535
)

// The settings of a client or a server.
type settings struct {
	suite    dtls.CipherSuiteID
	identity []byte
	key      []byte
	// Generates the connection IDs to receive with; nil if the extension is not offered.
	cid func() []byte
	// The folder with keys and certificates, and the name of the credential there; "psk" has no files.
	files, credential string
	group             elliptic.Curve
	// Whether the client has a certificate too.
	mutual bool
	// Sessions to resume; nil if none are.
	sessions dtls.SessionStore
}

// The name in the server's certificate.
const serverName = "server.example"

// A store of sessions in memory.
type memory struct {
	lock     sync.Mutex
	sessions map[string]dtls.Session
}

func (m *memory) Set(key []byte, session dtls.Session) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.sessions[string(key)] = session
	return nil
}

func (m *memory) Get(key []byte) (dtls.Session, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.sessions[string(key)], nil
}

func (m *memory) Del(key []byte) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	delete(m.sessions, string(key))
	return nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pion:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 2 {
		return errors.New("usage: serve|connect ADDR --suite NAME --identity ID --key-hex K --cid LEN|none")
	}
	address, err := net.ResolveUDPAddr("udp", arguments[1])
	if err != nil {
		return err
	}
	settings, err := parse(arguments[2:])
	if err != nil {
		return err
	}
	switch arguments[0] {
	case "serve":
		return serve(address, settings)
	case "connect":
		return connect(address, settings)
	default:
		return fmt.Errorf("neither serve nor connect: %s", arguments[0])
	}
}

func parse(arguments []string) (*settings, error) {
	flags := flag.NewFlagSet("pion", flag.ContinueOnError)
	suite := flags.String("suite", "TLS_PSK_WITH_AES_128_CCM_8", "the only cipher suite")
	identity := flags.String("identity", "", "the key's name")
	key := flags.String("key-hex", "", "the key")
	cid := flags.String("cid", "none", "length of the connection IDs to receive with")
	credential := flags.String("credential", "psk", "what both ends prove their identity with")
	files := flags.String("files", "", "the folder with keys and certificates")
	group := flags.String("group", "x25519", "the only group")
	mutual := flags.String("mutual", "no", "whether the client has a certificate too")
	resumed := flags.String("resumed", "no", "whether the client resumes its session")
	flags.String("retried", "no", "not of DTLS 1.2")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	settings := &settings{
		identity: []byte(*identity), files: *files, credential: *credential, mutual: *mutual == "yes",
	}
	if *resumed == "yes" {
		settings.sessions = &memory{sessions: map[string]dtls.Session{}}
	}
	switch *group {
	case "x25519":
		settings.group = elliptic.X25519
	case "secp256r1":
		settings.group = elliptic.P256
	case "secp384r1":
		settings.group = elliptic.P384
	default:
		return nil, fmt.Errorf("no such group: %s", *group)
	}
	var err error
	if settings.key, err = hex.DecodeString(*key); err != nil {
		return nil, err
	}
	if settings.suite, err = suiteNamed(*suite); err != nil {
		return nil, err
	}
	if *cid != "none" {
		length, err := strconv.ParseUint(*cid, 10, 8)
		if err != nil {
			return nil, err
		}
		settings.cid = dtls.RandomCIDGenerator(int(length))
	}
	return settings, nil
}

func suiteNamed(name string) (dtls.CipherSuiteID, error) {
	for _, suite := range []dtls.CipherSuiteID{
		dtls.TLS_PSK_WITH_AES_128_CCM,
		dtls.TLS_PSK_WITH_AES_128_CCM_8,
		dtls.TLS_PSK_WITH_AES_128_GCM_SHA256,
		dtls.TLS_PSK_WITH_CHACHA20_POLY1305_SHA256,
		dtls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
		dtls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		dtls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
		dtls.TLS_ECDHE_ECDSA_WITH_AES_128_CCM,
		dtls.TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8,
		dtls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	} {
		if dtls.CipherSuiteName(suite) == name {
			return suite, nil
		}
	}
	return 0, fmt.Errorf("no such cipher suite: %s", name)
}

// The certificate of a role with its key.
func (s *settings) certificate(role string) (tls.Certificate, error) {
	name := filepath.Join(s.files, s.credential+"-"+role)
	return tls.LoadX509KeyPair(name+".pem", name+".key")
}

// The authorities whose certificates are accepted.
func (s *settings) authorities() (*x509.CertPool, error) {
	pem, err := os.ReadFile(filepath.Join(s.files, "authority.pem"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("no authority")
	}
	return pool, nil
}

func (s *settings) certified() ([]dtls.Option, error) {
	authorities, err := s.authorities()
	if err != nil {
		return nil, err
	}
	options := []dtls.Option{
		dtls.WithCipherSuites(s.suite),
		dtls.WithExtendedMasterSecret(dtls.RequireExtendedMasterSecret),
		// The groups of DTLS 1.2 are those of certificates too (RFC 8422, section 5.1).
		dtls.WithEllipticCurves(s.group, elliptic.P256, elliptic.P384),
		dtls.WithRootCAs(authorities),
	}
	if s.cid != nil {
		options = append(options, dtls.WithConnectionIDGenerator(s.cid))
	}
	if s.sessions != nil {
		options = append(options, dtls.WithSessionStore(s.sessions))
	}
	return options, nil
}

// The options of a server.
func (s *settings) server() ([]dtls.ServerOption, error) {
	var options []dtls.ServerOption
	if s.credential == "psk" {
		for _, option := range s.options() {
			options = append(options, option)
		}
		return append(options, dtls.WithPSK(func(identity []byte) ([]byte, error) {
			if !bytes.Equal(identity, s.identity) {
				return nil, fmt.Errorf("no key named %q", identity)
			}
			return s.key, nil
		})), nil
	}
	common, err := s.certified()
	if err != nil {
		return nil, err
	}
	for _, option := range common {
		options = append(options, option)
	}
	certificate, err := s.certificate("server")
	if err != nil {
		return nil, err
	}
	options = append(options, dtls.WithCertificates(certificate))
	if s.mutual {
		authorities, err := s.authorities()
		if err != nil {
			return nil, err
		}
		options = append(options, dtls.WithClientAuth(dtls.RequireAndVerifyClientCert), dtls.WithClientCAs(authorities))
	}
	return options, nil
}

// The options of a client.
func (s *settings) client() ([]dtls.ClientOption, error) {
	var options []dtls.ClientOption
	if s.credential == "psk" {
		for _, option := range s.options() {
			options = append(options, option)
		}
		// A client sends this hint as its identity.
		return append(options, dtls.WithPSKIdentityHint(s.identity)), nil
	}
	common, err := s.certified()
	if err != nil {
		return nil, err
	}
	for _, option := range common {
		options = append(options, option)
	}
	options = append(options, dtls.WithServerName(serverName))
	if s.mutual {
		certificate, err := s.certificate("client")
		if err != nil {
			return nil, err
		}
		options = append(options, dtls.WithCertificates(certificate))
	}
	return options, nil
}

func (s *settings) options() []dtls.Option {
	psk := func(identity []byte) ([]byte, error) {
		// For a client, the argument is the server's hint, which is ignored.
		return s.key, nil
	}
	options := []dtls.Option{
		dtls.WithCipherSuites(s.suite),
		dtls.WithPSK(psk),
		dtls.WithExtendedMasterSecret(dtls.RequireExtendedMasterSecret),
	}
	if s.cid != nil {
		options = append(options, dtls.WithConnectionIDGenerator(s.cid))
	}
	return options
}

func serve(address *net.UDPAddr, settings *settings) error {
	options, err := settings.server()
	if err != nil {
		return err
	}
	listener, err := dtls.ListenWithOptions("udp", address, options...)
	if err != nil {
		return err
	}
	fmt.Println("ready", listener.Addr().(*net.UDPAddr).Port)
	go func() {
		for {
			accepted, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				if err := echo(accepted.(*dtls.Conn)); err != nil {
					fmt.Fprintln(os.Stderr, "pion:", err)
				}
			}()
		}
	}()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func echo(connection *dtls.Conn) error {
	if err := handshake(connection); err != nil {
		return err
	}
	return receive(connection, func(payload []byte) error {
		_, err := connection.Write(payload)
		return err
	})
}

func connect(address *net.UDPAddr, settings *settings) error {
	options, err := settings.client()
	if err != nil {
		return err
	}
	open := func() (*dtls.Conn, error) {
		connection, err := dtls.DialWithOptions("udp", address, options...)
		if err != nil {
			return nil, err
		}
		if err := handshake(connection); err != nil {
			return nil, err
		}
		go func() {
			if err := receive(connection, func([]byte) error { return nil }); err != nil {
				fmt.Fprintln(os.Stderr, "pion:", err)
			}
		}()
		return connection, nil
	}
	connection, err := open()
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "reconnect" {
			if err := connection.Close(); err != nil {
				return err
			}
			if connection, err = open(); err != nil {
				return err
			}
			continue
		}
		if _, err := connection.Write(lines.Bytes()); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), connection.Close())
}

func handshake(connection *dtls.Conn) error {
	limited, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	if err := connection.HandshakeContext(limited); err != nil {
		return err
	}
	state, ok := connection.ConnectionState()
	if !ok {
		return errors.New("no state after the handshake")
	}
	// pion shows the connection IDs only in the serialized state.
	serialized, err := state.MarshalBinary()
	if err != nil {
		return err
	}
	var ids struct{ LocalConnectionID, RemoteConnectionID []byte }
	if err := gob.NewDecoder(bytes.NewReader(serialized)).Decode(&ids); err != nil {
		return err
	}
	name := dtls.CipherSuiteName(state.CipherSuiteID)
	fmt.Println("connected", name, "send", len(ids.RemoteConnectionID), "receive", len(ids.LocalConnectionID))
	return nil
}

// Prints each payload that arrives and calls answer with it, until the peer closes.
func receive(connection *dtls.Conn, answer func([]byte) error) error {
	buffer := make([]byte, datagramBytes)
	for {
		length, err := connection.Read(buffer)
		if errors.Is(err, io.EOF) || errors.Is(err, dtls.ErrConnClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		// Each event is one line, even if the payload has line breaks.
		fmt.Println("received", strings.ToValidUTF8(strings.ReplaceAll(string(buffer[:length]), "\n", " "), "?"))
		if err := answer(buffer[:length]); err != nil {
			return err
		}
	}
}
