#!/usr/bin/env bash
# Runs suites of clients (conformance/clients) and memcached's own suite with a larderd that has a
# disk tier: tier.sh store|cache [SUITE...]. tier.toml lists the tests that cannot pass with a disk
# tier.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
larderd=$(realpath "${LARDERD:-${CARGO_TARGET_DIR:-$root/target}/release/larderd}")
export LARDER_TIER=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/items"

cat >"$folder/larderd" <<END
#!/usr/bin/env bash
mode=\$LARDER_TIER
unset LARDER_TIER
for word; do
    case \$word in
        -e* | --memory-file* | --local-readers* | --tier-path* | *ext_path* | *drop_privileges*)
            exec "$larderd" "\$@" ;;
        -M) [ "\$mode" = store ] || exec "$larderd" "\$@" ;;
    esac
done
# Remove the directories of processes that have ended.
for items in "$folder"/items/*; do
    [ -d "/proc/\${items##*/}" ] || rm -rf "\$items"
done
export LARDER_TIER_MODE=\$mode LARDER_TIER_SIZE=512m LARDER_TIER_PATH="$folder/items/\$\$/tier"
mkdir -m 700 "$folder/items/\$\$"
exec "$larderd" "\$@"
END
chmod +x "$folder/larderd"
export LARDERD=$folder/larderd

# shellcheck source=/dev/null
source "$root/conformance/contradictions.sh" "$root/conformance/tier.toml"
play_all "tier.sh $LARDER_TIER" "$@"
