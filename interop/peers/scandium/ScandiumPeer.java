import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.eclipse.californium.elements.AddressEndpointContext;
import org.eclipse.californium.elements.RawData;
import org.eclipse.californium.elements.auth.RawPublicKeyIdentity;
import org.eclipse.californium.elements.config.CertificateAuthenticationMode;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.scandium.DTLSConnector;
import org.eclipse.californium.scandium.config.DtlsConfig;
import org.eclipse.californium.scandium.config.DtlsConfig.DtlsRole;
import org.eclipse.californium.scandium.config.DtlsConnectorConfig;
import org.eclipse.californium.scandium.dtls.CertificateType;
import org.eclipse.californium.scandium.dtls.ConnectionId;
import org.eclipse.californium.scandium.dtls.DTLSContext;
import org.eclipse.californium.scandium.dtls.ExtendedMasterSecretMode;
import org.eclipse.californium.scandium.dtls.Handshaker;
import org.eclipse.californium.scandium.dtls.SessionAdapter;
import org.eclipse.californium.scandium.dtls.SignatureAndHashAlgorithm;
import org.eclipse.californium.scandium.dtls.cipher.CipherSuite;
import org.eclipse.californium.scandium.dtls.cipher.XECDHECryptography.SupportedGroup;
import org.eclipse.californium.scandium.dtls.pskstore.AdvancedSinglePskStore;
import org.eclipse.californium.scandium.dtls.x509.SingleCertificateProvider;
import org.eclipse.californium.scandium.dtls.x509.StaticNewAdvancedCertificateVerifier;

/**
 * A peer for Lightseal's tests: DTLS 1.2 with a pre-shared key, certificates or raw public keys, implemented by
 * Eclipse Californium.
 *
 * <pre>
 * serve ADDR    echoes what it receives
 * connect ADDR  sends each line of its standard input; after the line "reconnect" it resumes its session
 * </pre>
 *
 * It prints one line for each event: "ready PORT", "connected SUITE send N receive N"
 * (the lengths of the connection IDs that it sends and receives with, 0 for none),
 * "received TEXT". It ends when its standard input ends.
 */
final class ScandiumPeer {
    private static final int HANDSHAKE_TIMEOUT_SECONDS = 60;
    /** The name in the server's certificate. */
    private static final String SERVER_NAME = "server.example";

    private final CountDownLatch connected = new CountDownLatch(1);
    private volatile Throwable failure;

    public static void main(String[] arguments) {
        try {
            new ScandiumPeer().run(arguments);
            System.exit(0);
        } catch (Exception error) {
            System.err.println("Scandium: " + error);
            System.exit(1);
        }
    }

    private void run(String[] arguments)
            throws IOException, InterruptedException, GeneralSecurityException {
        if (arguments.length < 2 || arguments.length % 2 != 0) {
            throw new IllegalArgumentException(
                "usage: serve|connect ADDR --suite NAME --identity ID --key-hex K --cid LEN|none");
        }
        Map<String, String> flags = new HashMap<>(Map.of(
            "--suite", "TLS_PSK_WITH_AES_128_CCM_8", "--identity", "", "--key-hex", "", "--cid", "none",
            "--credential", "psk", "--files", "", "--group", "x25519", "--mutual", "no", "--resumed", "no"));
        flags.put("--retried", "no");
        for (int i = 2; i < arguments.length; i += 2) {
            if (flags.replace(arguments[i], arguments[i + 1]) == null) {
                throw new IllegalArgumentException("no such flag: " + arguments[i]);
            }
        }
        int colon = arguments[1].lastIndexOf(':');
        InetSocketAddress address = new InetSocketAddress(
            arguments[1].substring(0, colon), Integer.parseInt(arguments[1].substring(colon + 1)));
        switch (arguments[0]) {
            case "serve" -> serve(address, flags);
            case "connect" -> connect(address, flags);
            default -> throw new IllegalArgumentException("neither serve nor connect: " + arguments[0]);
        }
    }

    private void serve(InetSocketAddress address, Map<String, String> flags)
            throws IOException, GeneralSecurityException {
        DTLSConnector connector = connector(address, DtlsRole.SERVER_ONLY, flags);
        connector.setRawDataReceiver(received -> {
            print(received);
            connector.send(RawData.outbound(received.getBytes(), received.getEndpointContext(), null, false));
        });
        connector.start();
        System.out.println("ready " + connector.getAddress().getPort());
        while (System.in.read() >= 0) {
            // Only the end of standard input matters.
        }
        connector.destroy();
    }

    private void connect(InetSocketAddress peer, Map<String, String> flags)
            throws IOException, InterruptedException, GeneralSecurityException {
        InetSocketAddress any = new InetSocketAddress(peer.getAddress(), 0);
        DTLSConnector connector = connector(any, DtlsRole.CLIENT_ONLY, flags);
        connector.setRawDataReceiver(ScandiumPeer::print);
        connector.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        // The first payload starts the handshake.
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("reconnect")) {
                connector.forceResumeSessionFor(peer);
                continue;
            }
            byte[] payload = line.getBytes(StandardCharsets.UTF_8);
            String name = flags.get("--credential").equals("psk") ? null : SERVER_NAME;
            connector.send(RawData.outbound(payload, new AddressEndpointContext(peer, name, null), null, false));
            if (!connected.await(HANDSHAKE_TIMEOUT_SECONDS, TimeUnit.SECONDS)) {
                throw new IOException("the handshake takes too long");
            }
            if (failure != null) {
                throw new IOException(failure);
            }
        }
        connector.close(peer);
        connector.destroy();
    }

    private DTLSConnector connector(InetSocketAddress address, DtlsRole role, Map<String, String> flags)
            throws IOException, GeneralSecurityException {
        DtlsConfig.register();
        CipherSuite suite = CipherSuite.getTypeByName(flags.get("--suite"));
        if (suite == null) {
            throw new IllegalArgumentException("no such cipher suite: " + flags.get("--suite"));
        }
        byte[] key = HexFormat.of().parseHex(flags.get("--key-hex"));
        DtlsConnectorConfig.Builder builder = DtlsConnectorConfig.builder(new Configuration())
            .setAddress(address)
            .setSessionListener(new Listener())
            .set(DtlsConfig.DTLS_ROLE, role)
            .set(DtlsConfig.DTLS_RECOMMENDED_CIPHER_SUITES_ONLY, false)
            .setAsList(DtlsConfig.DTLS_CIPHER_SUITES, suite)
            .set(DtlsConfig.DTLS_EXTENDED_MASTER_SECRET_MODE, ExtendedMasterSecretMode.REQUIRED)
            .set(DtlsConfig.DTLS_RETRANSMISSION_TIMEOUT, 1, TimeUnit.SECONDS)
            .set(DtlsConfig.DTLS_MAX_CONNECTIONS, 100)
            .set(DtlsConfig.DTLS_RECEIVER_THREAD_COUNT, 1)
            .set(DtlsConfig.DTLS_CONNECTOR_THREAD_COUNT, 1);
        if (flags.get("--credential").equals("psk")) {
            builder.setAdvancedPskStore(new AdvancedSinglePskStore(flags.get("--identity"), key));
        } else {
            certify(builder, role, flags);
        }
        if (!flags.get("--cid").equals("none")) {
            builder.set(DtlsConfig.DTLS_CONNECTION_ID_LENGTH, Integer.parseInt(flags.get("--cid")));
        }
        return new DTLSConnector(builder.build());
    }

    /** Gives one end its key and what it accepts of the other one. */
    private static void certify(DtlsConnectorConfig.Builder builder, DtlsRole role, Map<String, String> flags)
            throws IOException, GeneralSecurityException {
        boolean isServer = role == DtlsRole.SERVER_ONLY;
        boolean raw = flags.get("--credential").equals("raw-key");
        boolean mutual = flags.get("--mutual").equals("yes");
        String own = flags.get("--credential") + (isServer ? "-server" : "-client");
        String other = flags.get("--credential") + (isServer ? "-client" : "-server");
        String algorithm = switch (flags.get("--credential")) {
            case "rsa" -> "RSA";
            case "ed25519" -> "Ed25519";
            default -> "EC";
        };
        Path files = Path.of(flags.get("--files"));
        KeyFactory keys = KeyFactory.getInstance(algorithm);
        if (isServer || mutual) {
            PrivateKey key = keys.generatePrivate(new PKCS8EncodedKeySpec(Files.readAllBytes(files.resolve(own + ".der"))));
            builder.setCertificateIdentityProvider(raw
                ? new SingleCertificateProvider(key, publicKey(keys, files.resolve(own + ".spki")))
                : new SingleCertificateProvider(
                    key, new Certificate[] {certificate(files.resolve(own + ".crt"))}, CertificateType.X_509));
        }
        if (!isServer || mutual) {
            StaticNewAdvancedCertificateVerifier.Builder verifier = StaticNewAdvancedCertificateVerifier.builder();
            builder.setAdvancedCertificateVerifier(raw
                ? verifier.setTrustedRPKs(
                    new RawPublicKeyIdentity(publicKey(keys, files.resolve(other + ".spki")))).build()
                : verifier.setTrustedCertificates(certificate(files.resolve("authority.crt"))).build());
        }
        SupportedGroup group = SupportedGroup.valueOf(flags.get("--group").replace("x25519", "X25519"));
        // The groups of DTLS 1.2 are those of certificates too (RFC 8422, section 5.1).
        Set<SupportedGroup> groups = new LinkedHashSet<>(
            List.of(group, SupportedGroup.X25519, SupportedGroup.secp256r1, SupportedGroup.secp384r1));
        if (isServer) {
            builder.set(DtlsConfig.DTLS_CLIENT_AUTHENTICATION_MODE,
                mutual ? CertificateAuthenticationMode.NEEDED : CertificateAuthenticationMode.NONE);
        }
        builder.set(DtlsConfig.DTLS_CURVES, List.copyOf(groups))
            .set(DtlsConfig.DTLS_RECOMMENDED_CURVES_ONLY, false)
            .set(DtlsConfig.DTLS_RECOMMENDED_SIGNATURE_AND_HASH_ALGORITHMS_ONLY, false)
            .set(DtlsConfig.DTLS_USE_SERVER_NAME_INDICATION, true)
            .setAsList(DtlsConfig.DTLS_SIGNATURE_AND_HASH_ALGORITHMS,
                SignatureAndHashAlgorithm.SHA256_WITH_ECDSA, SignatureAndHashAlgorithm.SHA384_WITH_ECDSA,
                SignatureAndHashAlgorithm.INTRINSIC_WITH_ED25519, SignatureAndHashAlgorithm.SHA256_WITH_RSA);
    }

    private static PublicKey publicKey(KeyFactory keys, Path file) throws IOException, GeneralSecurityException {
        return keys.generatePublic(new X509EncodedKeySpec(Files.readAllBytes(file)));
    }

    private static Certificate certificate(Path file) throws IOException, GeneralSecurityException {
        try (InputStream stream = Files.newInputStream(file)) {
            return CertificateFactory.getInstance("X.509").generateCertificate(stream);
        }
    }

    private static void print(RawData received) {
        // Each event is one line, even if the payload has line breaks.
        String text = new String(received.getBytes(), StandardCharsets.UTF_8);
        System.out.println("received " + text.replace('\n', ' '));
    }

    private static int length(ConnectionId id) {
        return id == null ? 0 : id.length();
    }

    /** Reports how handshakes end. */
    private final class Listener extends SessionAdapter {
        @Override
        public void contextEstablished(Handshaker handshaker, DTLSContext context) {
            System.out.println("connected " + context.getSession().getCipherSuite()
                + " send " + length(context.getWriteConnectionId())
                + " receive " + length(context.getReadConnectionId()));
            connected.countDown();
        }

        @Override
        public void handshakeFailed(Handshaker handshaker, Throwable error) {
            System.err.println("Scandium: " + error);
            failure = error;
            connected.countDown();
        }
    }
}
