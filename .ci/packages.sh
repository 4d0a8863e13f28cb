#!/bin/sh
# Install what the gate needs of the system, where it is missing: servers, a browser and tools.
set -eu

missing=""
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
command -v redis-server >/dev/null || missing="$missing redis-server"
command -v pgbouncer >/dev/null || missing="$missing pgbouncer"
command -v chromium >/dev/null || missing="$missing chromium"
command -v npm >/dev/null || missing="$missing npm"
command -v curl >/dev/null || missing="$missing curl"
command -v jq >/dev/null || missing="$missing jq"

if [ -z "$missing" ]; then
    echo "all there"
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    echo "missing, and only root can install it: apt install$missing" >&2
    exit 1
fi

# The packages bring services; none is to start, and no cluster is to be made.
quiet="/usr/sbin/policy-rc.d /etc/postgresql-common/createcluster.d/gate.conf"
made=""
trap 'rm -f $made' EXIT
mkdir -p /etc/postgresql-common/createcluster.d
for file in $quiet; do
    [ -e "$file" ] || made="$made $file"
done
case "$made" in *policy-rc.d*)
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod +x /usr/sbin/policy-rc.d ;;
esac
case "$made" in *gate.conf*)
    echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.d/gate.conf ;;
esac
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null
echo "installed:$missing"
