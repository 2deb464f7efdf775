
# $1 is the number of versions that are installed after this step: 1 after the first installation.
systemd-sysusers larder.conf || exit 1
pid=$(outdated)
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    # The presets of the distribution decide whether the service is enabled.
    [ "$1" -gt 1 ] || systemctl preset larderd.service larderd.socket || true
fi
if [ -n "$pid" ]; then
    hand_over "$pid"
fi
