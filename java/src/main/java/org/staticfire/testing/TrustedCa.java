package org.staticfire.testing;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.Map;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** The CA that a cluster's certificate is signed by: the file that RocketMQ's setting names. */
final class TrustedCa {
    static final String SETTING = "tls.client.trustCertPath";
    static final String VARIABLE = "STATICFIRE_TLS_CLIENT_TRUST_CERT_PATH";

    private TrustedCa() {}

    /** The file that the settings of a cluster name, or the environment, or a system property; empty if none does. */
    static String path(Map<String, String> settings, Map<String, String> environment) {
        String named = settings.getOrDefault(SETTING, environment.getOrDefault(VARIABLE, ""));
        return named.isEmpty() ? System.getProperty(SETTING, "") : named;
    }

    /** A context that trusts the CAs of a PEM file, and no other ones. */
    static SSLContext context(String path) {
        try (InputStream file = Files.newInputStream(Path.of(path))) {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            int number = 0;
            for (Certificate each : CertificateFactory.getInstance("X.509").generateCertificates(file)) {
                store.setCertificateEntry("ca-" + number++, each);
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            return context;
        } catch (IOException | GeneralSecurityException error) {
            throw new StaticfireException(path + " (" + SETTING + ") can't be read: it must be a PEM file with"
                + " certificates: " + error, error);
        }
    }
}
