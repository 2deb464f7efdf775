#!/usr/bin/env bash
# spymemcached, a Java client, in the text and the binary protocol.
source "$(dirname "$0")/server.sh"

version=2.12.3
jar=$kept/jars/spymemcached-$version.jar
command -v java >/dev/null || fail "java is missing: run conformance/install.sh"
if [ ! -e "$jar" ]; then
    command -v mvn >/dev/null || fail "mvn is missing: run conformance/install.sh"
    mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
        "-Dartifact=net.spy:spymemcached:$version" "-DoutputDirectory=$kept/jars" || fail "cannot download spymemcached"
fi
start_on_free_port
play_driver java -cp "$jar" "$root/conformance/clients/Spymemcached.java" "$port"
