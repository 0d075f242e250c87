# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The trials of trial.sh that need machines: network namespaces as four machines, and a Slurm of one node."""
import os
import shutil
import signal
import subprocess
import time

PREFIX = "sluicetrial"


def run(*words, check=True):
    return subprocess.run([str(word) for word in words], check=check, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Network:
    """Four namespaces with a link of 100 Mbit/s each to a switch in a fifth."""

    def __init__(self, folder, count=4):
        self.hosts = [f"{PREFIX}{i}" for i in range(count)]
        self.hub = f"{PREFIX}hub"
        self.agent = folder / "agent.sh"
        self.agent.write_text('#!/bin/sh\nhost=$1; shift\n'
                              'exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"\n')
        self.agent.chmod(0o755)
        self.remove()
        run("ip", "netns", "add", self.hub)
        run("ip", "-n", self.hub, "link", "add", "switch", "type", "bridge")
        run("ip", "-n", self.hub, "link", "set", "switch", "up")
        names = "127.0.0.1 localhost\n" + "".join(f"10.77.0.{i + 1} {host}\n" for i, host in enumerate(self.hosts))
        for i, host in enumerate(self.hosts):
            run("ip", "netns", "add", host)
            os.makedirs(f"/etc/netns/{host}", exist_ok=True)
            with open(f"/etc/netns/{host}/hosts", "w") as hosts:
                hosts.write(names)
            run("ip", "-n", host, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{i}", "netns", self.hub)
            run("ip", "-n", host, "address", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                run("ip", "-n", host, "link", "set", link, "up")
            self.join(i)
            # mpirun waits for the daemon of a lost machine until TCP gives up, as docs/many-machines.md describes.
            run("ip", "netns", "exec", host, "sh", "-c", "cd /proc/sys/net/ipv4; echo 5 > tcp_retries2; echo 2 > tcp_syn_retries")
            shaped = run("tc", "-n", host, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "100mbit", "burst", "64kb", "latency",
                         "50ms", check=False)
            if shaped.returncode:
                print("the bandwidth is not limited:", shaped.stdout.strip())

    def join(self, i):
        run("ip", "-n", self.hub, "link", "set", f"port{i}", "master", "switch", "up")

    def drop(self, i):
        """Drops all packets from and to a host: its port leaves the switch."""
        run("ip", "-n", self.hub, "link", "set", f"port{i}", "nomaster")

    def remove(self):
        for name in [*self.hosts, self.hub]:
            run("ip", "netns", "del", name, check=False)
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)

    def start(self, trial, run_folder, *words):
        ranks = trial.command(run_folder, "--log-every", 1, *words)
        command = ["mpirun", "--mca", "plm_rsh_agent", str(self.agent), "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0",
                   "--mca", "oob_tcp_if_include", "eth0", "--mca", "oob_tcp_keepalive_time", "5", "--mca", "oob_tcp_keepalive_intvl", "2",
                   "--mca", "oob_tcp_keepalive_probes", "3", "-H", ",".join(self.hosts), "-n", str(len(self.hosts)), *ranks]
        return subprocess.Popen([self.agent, self.hosts[0], *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                errors="replace", start_new_session=True)


def kill_left(trial):
    """Ends the processes of a trial that are left on machines which the launcher no longer reaches."""
    left = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline") as file:
                words = file.read()
            if (str(trial.work) in words or PREFIX in words) and int(name) != os.getpid():
                os.kill(int(name), signal.SIGKILL)
                left += 1
        except OSError:
            pass
    return left


def try_network(trial):
    if os.geteuid() != 0 or run("unshare", "--net", "true", check=False).returncode:
        print("no network namespaces: machines are not tried")
        return
    network = Network(trial.work)
    try:
        folder = trial.work / "machines"
        process = network.start(trial, folder)
        output, reason, seconds = trial.end(process)
        if not reason and (process.returncode or not trial.has_whole_weights(folder)):
            reason = f"status {process.returncode}, or other weights"
        trial.check(f"four machines: {seconds:.1f} s", reason, output)
        for host, name in ((2, "a worker"), (0, "the launcher")):
            folder = trial.work / f"dropped-{host}"
            process = network.start(trial, folder, "--wait-limit", 5)
            trial.wait_for_steps(folder, process)
            network.drop(host)
            output, reason, seconds = trial.end(process)
            if not reason and ("not answered rank" not in output or process.returncode == 0):
                reason = f"status {process.returncode}, or no message"
            time.sleep(15)
            left = kill_left(trial)
            network.join(host)
            trial.check(f"dropped traffic of {name}: {seconds:.1f} s, status {process.returncode}, {left} processes left on other "
                        "machines", reason or trial.resume(folder), output)
    finally:
        network.remove()


def try_slurm(trial):
    needed = ("slurmctld", "slurmd", "srun", "munged")
    missing = [name for name in needed if not shutil.which(name) and not os.path.exists("/usr/sbin/" + name)]
    if os.geteuid() != 0 or missing:
        print("Slurm is not tried: expected root and", ", ".join(needed))
        return
    folder = trial.work / "slurm"
    folder.mkdir()
    host = os.uname().nodename.split(".")[0]
    (folder / "slurm.conf").write_text(f"""ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdSpoolDir={folder}/spool
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort=26817
SlurmdPort=26818
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
""")
    for name in ("spool", "state"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    environment = dict(os.environ, SLURM_CONF=str(folder / "slurm.conf"), PATH=os.environ["PATH"] + ":/usr/sbin")
    daemons = []

    def start(*words):
        with open(folder / "daemons.log", "ab") as log:
            daemons.append(subprocess.Popen(words, env=environment, stdout=log, stderr=log))

    start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid",
          f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed")
    time.sleep(1)
    start("slurmctld", "-D")
    time.sleep(1)
    start("slurmd", "-D")
    try:
        for _ in range(60):
            state = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True).stdout.strip()
            if state.startswith("idle"):
                break
            time.sleep(0.5)
        count = min(2, os.cpu_count())
        for name, words in (("srun", ["srun", "--mpi=pmix", "-n", str(count), *trial.command(trial.work / "srun")]),
                            ("sbatch", ["sbatch", "--wait", "-n", str(count), f"--output={folder}/sbatch.out", f"{folder}/job"])):
            (folder / "job").write_text(
                f"#!/bin/bash\nexec srun --mpi=pmix {' '.join(trial.command(trial.work / 'sbatch'))}\n")
            process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       start_new_session=True)
            output, reason, seconds = trial.end(process)
            if not reason and (process.returncode or not trial.has_whole_weights(trial.work / name)):
                reason = f"status {process.returncode}, or other weights"
            logs = "".join((folder / log).read_text(errors="replace")[-2000:] for log in ("sbatch.out", "slurmd.log", "slurmctld.log", "daemons.log")
                           if (folder / log).exists())
            trial.check(f"{name}: {seconds:.1f} s, node {state}", reason, output + logs if reason else "")
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait()
