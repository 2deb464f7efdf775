
# $1 is the number of versions that are installed after this step: 0 before a removal.
if [ "$1" -eq 0 ]; then
    # `set -e` is on. systemctl prints its errors itself. A unit that the operator masked or removed
    # must not keep RPM from removing the package; `end` stops what still runs.
    if [ -d /run/systemd/system ]; then
        systemctl --no-reload disable larderd.socket larderd.service || true
        systemctl stop larderd.socket larderd.service var-lib-larder.mount || true
    fi
    end
fi
