#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the stores beside this file anew, in the current folder.
set -eu
S="-storepass store-secret"
LONG="-validity 36500 -keyalg EC -groupname secp256r1"
jks() { keytool "$@" $S -storetype JKS 2>/dev/null; }
p12() { keytool "$@" $S -storetype PKCS12 2>/dev/null; }
p12 -genkeypair $LONG -alias ca -dname CN=authority -ext bc:c -keystore ca.p12
p12 -exportcert -alias ca -keystore ca.p12 -file ca.der
p12 -exportcert -rfc -alias ca -keystore ca.p12 -file ca.pem
jks -genkeypair $LONG -alias own -dname CN=own -keypass key-secret -keystore key.jks
jks -certreq -alias own -keypass key-secret -keystore key.jks -file own.csr
p12 -gencert -validity 36500 -alias ca -keystore ca.p12 -infile own.csr -outfile own.der -ext san=dns:localhost
jks -importcert -noprompt -alias authority -file ca.der -keystore key.jks
jks -importcert -noprompt -alias own -keypass key-secret -file own.der -keystore key.jks
jks -genkeypair $LONG -alias second -dname CN=second -keypass other-secret -keystore key.jks
jks -exportcert -alias second -keystore key.jks -file second.der
jks -importcert -noprompt -alias authority -file ca.der -keystore trust.jks
p12 -importcert -noprompt -alias authority -file ca.der -keystore trust.p12
p12 -importcert -noprompt -alias more -file second.der -keystore trust.p12
p12 -importcert -noprompt -alias authority -file ca.der -keystore trust-open.p12 \
    -J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE -J-Dkeystore.pkcs12.macAlgorithm=NONE
p12 -importcert -noprompt -alias authority -file ca.der -keystore trust-legacy.p12 -J-Dkeystore.pkcs12.legacy
keytool -importkeystore -srckeystore key.jks -srcstorepass store-secret -srcalias own -srckeypass key-secret \
    -destkeystore key.p12 -deststoretype PKCS12 -deststorepass store-secret -destkeypass store-secret 2>/dev/null
p12 -genkeypair $LONG -alias public -dname CN=public -ext bc:c -keystore public.p12
p12 -exportcert -alias public -keystore public.p12 -file public.der
p12 -importkeystore -srckeystore key.p12 -srcstorepass store-secret -destkeystore keys.p12 -deststorepass store-secret
p12 -genkeypair $LONG -alias other -dname CN=other -keystore keys.p12
p12 -certreq -alias other -keystore keys.p12 -file other.csr
p12 -gencert -validity 36500 -alias public -keystore public.p12 -infile other.csr -outfile other.der
cat other.der public.der >other.chain
p12 -importcert -noprompt -trustcacerts -alias other -file other.chain -keystore keys.p12
p12 -importcert -noprompt -alias more -file second.der -keystore keys.p12
rm public.p12 public.der other.csr other.der other.chain
keytool -genkeypair $LONG -alias own -dname CN=own -keystore key.jceks -storetype JCEKS $S -keypass store-secret 2>/dev/null
rm ca.p12 ca.der ca.pem own.csr own.der second.der
