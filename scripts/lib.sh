# Shared by the scripts: what a fresh machine lacks is set up here, and said in one sentence where it cannot be.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export PATH="$root/.venv/bin:$PATH"
export PIP_DISABLE_PIP_VERSION_CHECK=1
# Some hundred processes of this program are started by the tests: without what is kept, each compiles all of it anew.
unset PYTHONDONTWRITEBYTECODE

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 3; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo -n "$@"; else return 1; fi
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
        [ -n "$candidate" ] || continue
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    die "Python 3.11, 3.12 or 3.13 is needed and was not found: install it (for instance apt-get install python3 python3-venv)."
}

# ensure_venv NAME: .venv holds what locks/NAME.txt names, and this package, editable. Quick when it already does.
ensure_venv() {
    local lock="locks/$1.txt" python want stamp=.venv/.locked
    want=$(cat "$lock" pyproject.toml | sha256sum | cut -d' ' -f1)
    if [ -f "$stamp" ] && { grep -qx "$1 $want" "$stamp" || { [ "$1" = sandbox ] && ensured_by_dev "$stamp"; }; }; then
        return
    fi
    if [ ! -x .venv/bin/python ] || ! .venv/bin/python -c '' 2>/dev/null; then
        python=$(find_python)
        rm -rf .venv
        "$python" -m venv .venv 2>/dev/null || {
            apt_retry as_root apt-get install -y -qq --no-install-recommends python3-venv >/dev/null && rm -rf .venv && "$python" -m venv .venv
        } || die "$python cannot make a virtual environment: install its venv module (apt-get install python3-venv)."
    fi
    say "Setting up .venv from $lock (a minute or two the first time) …"
    .venv/bin/python -m pip install --quiet --require-hashes -r "$lock" ||
        die "The packages in $lock could not be installed: see pip's message above; is the package index reachable?"
    .venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable . ||
        die "This package could not be installed into .venv: see pip's message above."
    printf '%s %s\n' "$1" "$want" >"$stamp"
}

ensured_by_dev() { grep -qx "dev $(cat locks/dev.txt pyproject.toml | sha256sum | cut -d' ' -f1)" "$1"; }

# The package lists of a fresh machine may be empty or old: look once more after an update.
apt_retry() { "$@" 2>/dev/null || { as_root apt-get update -qq >/dev/null 2>&1 && "$@"; }; }

# Debian's package, unpacked beside the project: no service is installed, let alone started.
ensure_prometheus() {
    if command -v prometheus >/dev/null || [ -x .tools/usr/bin/prometheus ] || [ -n "${QUARANTINE_SANDBOX_PROMETHEUS:-}" ]; then
        return
    fi
    local hint="Prometheus is needed: put the binary 'prometheus' on PATH, or into .tools/usr/bin/ (from your distribution's package, or a release of prometheus/prometheus)."
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || die "$hint"
    say "Fetching Debian's prometheus package into .tools/ …"
    mkdir -p .tools/deb
    (cd .tools/deb && apt_retry apt-get download -qq prometheus >/dev/null) || die "$hint"
    dpkg-deb -x .tools/deb/prometheus_*.deb .tools || die "$hint"
    rm -rf .tools/deb
    .tools/usr/bin/prometheus --version >/dev/null 2>&1 || die "Debian's prometheus does not run here. $hint"
}

# Server binaries only: no cluster is created and no service started.
ensure_postgres() {
    if command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || [ -n "${QUARANTINE_SANDBOX_PG_BIN:-}" ]; then
        return
    fi
    local hint="Postgres' server binaries are needed for the tests: apt-get install --no-install-recommends postgresql (its service need not run)."
    command -v apt-get >/dev/null || die "$hint"
    say "Installing Debian's postgresql (binaries only; no cluster, no service) …"
    local guard=""
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee /usr/sbin/policy-rc.d >/dev/null && as_root chmod +x /usr/sbin/policy-rc.d && guard=yes
    fi
    as_root mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] ||
        echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
    DEBIAN_FRONTEND=noninteractive apt_retry as_root apt-get install -y -qq --no-install-recommends postgresql >/dev/null
    local status=$?
    [ -z "$guard" ] || as_root rm -f /usr/sbin/policy-rc.d
    [ "$status" = 0 ] || die "$hint"
}
