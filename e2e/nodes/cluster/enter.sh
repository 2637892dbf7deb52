#!/bin/sh
# Makes a tree the root of new namespaces and runs a command there:
#   unshare --mount --pid --fork enter.sh TREE DISK [SOURCE:TARGET ...] -- COMMAND [ARGUMENT ...]
# Changes of the tree go to DISK. Each SOURCE is mounted at its TARGET. With CGROUPS, a list of
# folders, the command and its children are in these control groups, and see no others.
set -eu
tree=$1 disk=$2

if [ -n "${CGROUPS:-}" ] && [ -z "${JOINED:-}" ]; then
    for group in $CGROUPS; do
        echo 0 > "$group/cgroup.procs"
    done
    JOINED=1 exec unshare --cgroup sh "$0" "$@"
fi
shift 2

mount_cgroups() {
    if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
        mount -t cgroup2 cgroup2 "$1"
        return
    fi
    mount -t tmpfs tmpfs "$1"
    while IFS=: read -r _ controllers _; do
        [ -n "$controllers" ] || continue  # the second version, without controllers here
        folder=$1/${controllers#name=}
        mkdir "$folder"
        case $controllers in
        name=*) mount -t cgroup -o "none,$controllers" cgroup "$folder" ;;
        *) mount -t cgroup -o "$controllers" cgroup "$folder" ;;
        esac
        for one in $(echo "$controllers" | tr , ' '); do
            [ -e "$1/${one#name=}" ] || ln -s "$controllers" "$1/$one"
        done
    done < /proc/self/cgroup
}

root=$disk/root
mkdir -p "$root" "$disk/upper" "$disk/work"
mount -t overlay -o "lowerdir=$tree,upperdir=$disk/upper,workdir=$disk/work" tree "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
[ -z "${CGROUPS:-}" ] || mount_cgroups "$root/sys/fs/cgroup"
while [ "$1" != -- ]; do
    source=${1%:*} target=$root${1##*:}
    if [ -d "$source" ]; then
        mkdir -p "$target"
    elif [ ! -e "$target" ]; then
        mkdir -p "$(dirname "$target")"
        : > "$target"
    fi
    mount --bind "$source" "$target"
    shift
done
shift

cd "$root"
pivot_root . mnt
cd /
umount -l /mnt
mount --make-rshared /
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"
