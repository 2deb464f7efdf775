#!/usr/bin/env bash
# Amazon's Java client for ElastiCache, in the text and the binary protocol, and xmemcached's client
# for ElastiCache discover three larderd.
source "$(dirname "$0")/server.sh"
source "$(dirname "$0")/discovery_servers.sh"

jars=$kept/jars
class_path=
command -v java >/dev/null || fail "java is missing: run conformance/install.sh"
for artifact in com.amazonaws:elasticache-java-cluster-client:1.2.4 \
    com.googlecode.xmemcached:xmemcached:2.4.8 org.slf4j:slf4j-api:1.7.36 \
    org.slf4j:slf4j-nop:1.7.36; do
    jar=$jars/$(cut -d : -f 2- --output-delimiter - <<<"$artifact").jar
    if [ ! -e "$jar" ]; then
        command -v mvn >/dev/null || fail "mvn is missing: run conformance/install.sh"
        mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
            "-Dartifact=$artifact" "-DoutputDirectory=$jars" || fail "cannot download $artifact"
    fi
    class_path+=${class_path:+:}$jar
done
start_cluster
driver_secs=300 play_driver java -cp "$class_path" "$root/conformance/clients/Discovery.java" \
    "$list" "${ports[@]}"
