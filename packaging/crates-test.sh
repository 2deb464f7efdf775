#!/usr/bin/env bash
# Packages the publishable crates as `cargo publish` would upload them. Then builds and runs a
# program outside the checkout that uses only these packages.
set -euo pipefail
cd "$(dirname "$0")/.."

crates="larder-item larder-stats larder-region larder-protocol larder-engine larder-tier larder"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "crates-test: $*" >&2
    exit 1
}

# Uncommitted changes do not matter to the test; publishing refuses them. shellcheck disable=SC2086
cargo package --quiet --locked --allow-dirty --no-verify --target-dir "$folder/target" \
    $(printf -- '--package %s ' $crates)

mkdir -p "$folder/program/src"
for crate in $crates; do
    tar --extract --gzip --file "$folder/target/package/$crate-$version.crate" --directory "$folder"
    for file in LICENSE README.md; do
        [ -s "$folder/$crate-$version/$file" ] || fail "the package of $crate has no $file"
    done
    ! grep -q 'path = "\.\.' "$folder/$crate-$version/Cargo.toml" ||
        fail "the package of $crate names a path outside the package"
done

{
    printf '[package]\nname = "program"\nedition = "2024"\n\n[dependencies]\n'
    printf 'larder = { version = "%s", features = ["serde", "tokio", "tracing", "metrics"] }\n' "$version"
    printf 'serde = { version = "1", features = ["derive"] }\n'
    printf 'tokio = { version = "1", features = ["rt", "time"] }\n\n[patch.crates-io]\n'
    for crate in $crates; do
        printf '%s = { path = "../%s-%s" }\n' "$crate" "$crate" "$version"
    done
} >"$folder/program/Cargo.toml"
cat >"$folder/program/src/main.rs" <<'END'
use larder::{Cache, CacheMetrics, Postcard, TypedCache};

#[derive(serde::Serialize, serde::Deserialize)]
struct Greeting {
    text: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::builder().memory_bytes(8 << 20).open()?;
    let typed: TypedCache<str, Greeting, Postcard> =
        TypedCache::with_codec(cache.clone(), Postcard::new());
    let load = || async { Ok::<_, std::io::Error>(Greeting { text: "hello".to_owned() }) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(typed.get_or_load_async("greeting", load))?;
    CacheMetrics::register(&cache, &[]).record();
    println!("{}", typed.get("greeting")?.ok_or("no value")?.text);
    Ok(())
}
END
# Other crates have the versions of this checkout.
cp Cargo.lock "$folder/program/"
said=$(cargo run --quiet --manifest-path "$folder/program/Cargo.toml" \
    --target-dir "$folder/target") || fail "the program outside the checkout cannot be built or run"
[ "$said" = hello ] || fail "the program prints: $said; expected: hello"

# An archive of git contains its commit and date.
commit=$(git rev-parse --short=12 HEAD)
mkdir "$folder/archive"
git archive HEAD | tar --extract --directory "$folder/archive"
cargo build --quiet --locked --package larder-options --target-dir "$folder/archived" \
    --manifest-path "$folder/archive/Cargo.toml"
date=$(TZ=UTC git show --no-patch --date=format-local:%Y-%m-%d --format=%cd HEAD)
for line in "LARDER_COMMIT=$commit" "LARDER_DATE=$date"; do
    grep -qx "cargo::rustc-env=$line" "$folder"/archived/debug/build/larder-options-*/output ||
        fail "a build of git's archive does not have $line"
done
echo "crates-test: a program outside the checkout runs with the packages of: $crates"
