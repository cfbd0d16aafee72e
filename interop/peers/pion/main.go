// A peer for Lightseal's tests: DTLS 1.2 with a pre-shared key, implemented by pion.
//
//	serve ADDR    echoes what it receives
//	connect ADDR  sends each line of its standard input
//
// It prints one line for each event: "ready PORT", "connected SUITE send N receive N" (the lengths
// of the connection IDs that it sends and receives with, 0 for none), "received TEXT". It ends when
// its standard input ends.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pion/dtls/v3"
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
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	settings := &settings{identity: []byte(*identity)}
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
	} {
		if dtls.CipherSuiteName(suite) == name {
			return suite, nil
		}
	}
	return 0, fmt.Errorf("no such cipher suite: %s", name)
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
	var options []dtls.ServerOption
	for _, option := range settings.options() {
		options = append(options, option)
	}
	options = append(options, dtls.WithPSK(func(identity []byte) ([]byte, error) {
		if !bytes.Equal(identity, settings.identity) {
			return nil, fmt.Errorf("no key named %q", identity)
		}
		return settings.key, nil
	}))
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
	var options []dtls.ClientOption
	for _, option := range settings.options() {
		options = append(options, option)
	}
	// A client sends this hint as its identity.
	options = append(options, dtls.WithPSKIdentityHint(settings.identity))
	connection, err := dtls.DialWithOptions("udp", address, options...)
	if err != nil {
		return err
	}
	if err := handshake(connection); err != nil {
		return err
	}
	go func() {
		if err := receive(connection, func([]byte) error { return nil }); err != nil {
			fmt.Fprintln(os.Stderr, "pion:", err)
		}
	}()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
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
