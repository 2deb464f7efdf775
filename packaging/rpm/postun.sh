# An upgrade leaves the service to the new version, which post makes it hand over to.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
# $1 is the number of versions that are installed after this step.
if [ "$1" -eq 0 ]; then
    rm -rf /run/larder
    # Folders that the package or the service made. The operator removes the items of a disk tier,
    # and a changed larderd.toml stays as larderd.toml.rpmsave.
    for folder in /etc/larder /var/lib/larder /var/lib/larder-disk /usr/share/doc/larder \
        /usr/share/licenses/larder; do
        [ ! -d "$folder" ] || rmdir --ignore-fail-on-non-empty "$folder"
    done
fi
