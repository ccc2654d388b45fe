// SPDX-License-Identifier: Apache-2.0
import java.io.FileInputStream;
import java.io.InputStream;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;

/** The cipher suites that Java offers; then, for each pair of files, whether it takes a server's chain. */
public class TlsDefaults {
    public static void main(String[] files) throws Exception {
        System.out.println(
                String.join(" ", SSLContext.getDefault().createSSLEngine().getEnabledCipherSuites()));
        for (int at = 0; at < files.length; at += 2) {
            System.out.println(verdict(read(files[at]), read(files[at + 1])));
        }
    }

    private static String verdict(Certificate[] trusted, Certificate[] chain) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        for (int at = 0; at < trusted.length; at++) {
            store.setCertificateEntry("trusted-" + at, trusted[at]);
        }
        TrustManagerFactory factory = TrustManagerFactory.getInstance("PKIX");
        factory.init(store);
        X509Certificate[] shown = new X509Certificate[chain.length];
        System.arraycopy(chain, 0, shown, 0, chain.length);
        try {
            ((X509TrustManager) factory.getTrustManagers()[0]).checkServerTrusted(shown, "ECDHE_RSA");
            return "taken";
        } catch (CertificateException refused) {
            return "refused: " + refused.getMessage();
        }
    }

    private static Certificate[] read(String file) throws Exception {
        try (InputStream in = new FileInputStream(file)) {
            return CertificateFactory.getInstance("X.509").generateCertificates(in).toArray(new Certificate[0]);
        }
    }
}
