#!/usr/bin/env bash
# Runs mpirun on two network namespaces as if they were two machines, with a limited bandwidth between them. Needs root.
#
#     tests/mpi/two-hosts.sh RATE mpirun ARGUMENT ...
#
# RATE is that of each direction in Gbit/s, such as `1` or `10`, or with a latency in milliseconds, `1+1`; `none` limits nothing.
# Without a latency, `tc` limits the bandwidth; with one, link.py forwards the packets.
set -euo pipefail

rate=$1
shift 2
folder=$(mktemp -d)
link=
clean() {
    if [ -n "$link" ]; then kill "$link" || true; fi
    rm -rf "$folder"
    ip netns del txa 2> /dev/null || true
    ip netns del txb 2> /dev/null || true
}
trap clean EXIT
for name in txa txb; do
    ip netns add "$name"
    ip -n "$name" link set lo up
done
case $rate in
    *+*)
        coproc LINK { exec python3 "$(dirname "$0")/link.py" txa 10.77.0.1 txb 10.77.0.2 "${rate%+*}" "${rate#*+}"; }
        link=$LINK_PID
        read -r _ <&"${LINK[0]}"
        ;;
    *)
        ip -n txa link add txa type veth peer name txb netns txb
        number=1
        for name in txa txb; do
            ip -n "$name" addr add "10.77.0.$number/24" dev "$name"
            ip -n "$name" link set "$name" up
            # The burst is small compared with the gradients; packets have up to 64 kB.
            if [ "$rate" != none ]; then
                tc -n "$name" qdisc add dev "$name" root tbf rate "${rate}gbit" burst 256kb latency 50ms
            fi
            number=$((number + 1))
        done
        ;;
esac
# In place of ssh: the first argument is the host.
cat > "$folder/agent" <<'END'
#!/usr/bin/env bash
shift
exec ip netns exec txb unshare --uts bash -c "hostname txb; $*"
END
chmod +x "$folder/agent"
ip netns exec txa unshare --uts bash -c 'hostname txa; exec "$@"' _ mpirun \
    --host 10.77.0.1:1,10.77.0.2:1 --mca plm rsh --mca plm_rsh_agent "$folder/agent" --mca btl self,tcp --mca pml ob1 \
    --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 "$@"
