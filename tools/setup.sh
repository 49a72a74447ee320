# What tools/demo and tools/test share: the packages they need, and how a preset is built. Sourced, not run.
# Expects `set -euo pipefail`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# To build the library and the tools; nothing more is needed to use them.
build_packages=(g++ cmake ninja-build pkg-config libfmt-dev libhwy-dev libhwloc-dev libssl-dev libcli11-dev nlohmann-json3-dev
  libpugixml-dev)
# To build and run the tests: two MPI implementations serve as launchers, iproute2 joins network namespaces.
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev python3 iproute2 util-linux procps binutils
  openmpi-bin mpich libucx-dev
  python3-numpy python3-pytest dpkg-dev)
# For every test: PyTorch brings its own suite for backends (with what it depends on it takes 1 GB); a Slurm of the tests' own.
whole_test_packages=(python3-torch slurm-client slurmctld slurmd munge)

say() { printf '== %s\n' "$*"; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

is_installed() { [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# install_packages NAME...: installs those that are missing, and only those. Nothing happens, and no privilege is
# needed, when none is.
install_packages() {
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
    die "this is not a Debian system. Install the counterparts of these packages, then follow 'By hand' in README.md: $*"
  local missing=() package
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "these packages are missing and there is no sudo. As root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  local apt_get=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y)
  say "installing ${missing[*]}"
  # The list of packages may never have been fetched, which a dry run shows, or name versions that the mirror has
  # replaced since. A failed update is no failure yet: it may be about somebody else's repository.
  local options=(--no-install-recommends install "${missing[@]}")
  if ! apt-get --simulate "${options[@]}" >/dev/null 2>&1 || ! "${apt_get[@]}" "${options[@]}"; then
    "${apt_get[@]}" update || say "apt-get update failed for some source"
    "${apt_get[@]}" "${options[@]}" ||
      die "could not install ${missing[*]}; apt-get's message is above. Is there a network, and a mirror in /etc/apt?"
  fi
}

# build_preset PRESET TARGET [cmake options]: configures and builds TARGET (several in one word, `all` for everything) in
# build/PRESET. What was built before is reused.
build_preset() {
  local preset=$1 targets
  read -ra targets <<<"$2"
  shift 2
  say "building build/$preset"
  (cd "$root" && cmake --preset "$preset" -Wno-dev --log-level=WARNING "$@" &&
    cmake --build --preset "$preset" -j "$(nproc)" --target "${targets[@]}") ||
    die "the $preset build failed; the first error is above"
}
