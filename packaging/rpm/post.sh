
# $1 is the number of versions that are installed after this step: 1 after the first installation.
systemd-sysusers larder.conf || exit 1
pid=$(outdated)
# `set -e` is on. systemctl prints its errors itself, and the package is installed also where it
# fails: a post script that fails would keep the running server from being handed over.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    # The presets of the distribution decide whether the service is enabled.
    [ "$1" -gt 1 ] || systemctl preset larderd.service larderd.socket || true
fi
if [ -n "$pid" ]; then
    hand_over "$pid"
fi
