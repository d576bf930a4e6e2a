"""The gate: the sandbox's first process, a trusted shell that waits and then becomes the tenant's command.

It lives on what the sandbox shows at /.corral, read-only: a folder of the host's with two FIFOs and nothing secret:

- `go`: the gate reads it until the word `open` comes. Who can open it for writing without blocking knows that it waits.
- `log`: becomes the command's output and error, one stream. It is opened for reading and writing, so that the
  command blocks, and is not killed by SIGPIPE, while its runner is being replaced.

The runner writes a file there before it sends SIGTERM: `stop` holds the reason, in a word.

The command starts in /scratch, or in /tmp where the job asked for no scratch. Exit codes are the shell's: 127 for a
command that is not there, 126 for one that cannot be executed.
"""

import os
from pathlib import Path

INSIDE = "/.corral"
GO, LOG = "go", "log"
OPEN = b"open\n"

# The names of variables begin with `_corral`, as an assignment to a name of the tenant's would change what it exported.
# The search is our own: busybox takes its own applet for a bare name, and `command -v` finds functions and builtins.
SCRIPT = f"""\
if [ "$1" != 0 ]; then ulimit -p "$1" 2>/dev/null || ulimit -u "$1" || exit 125; fi
shift
while ! read -r _corral_word <{INSIDE}/{GO} || [ "$_corral_word" != open ]; do :; done
cd /scratch 2>/dev/null || cd /tmp 2>/dev/null || cd /
exec 0</dev/null 1<>{INSIDE}/{LOG} 2>&1
_corral_path= _corral_code=127
case $1 in
-*/*) _corral_path=./$1 ;;
*/*) _corral_path=$1 ;;
?*)
  _corral_rest=$PATH:
  while [ -n "$_corral_rest" ]; do
    _corral_dir=${{_corral_rest%%:*}}
    _corral_rest=${{_corral_rest#*:}}
    _corral_file=${{_corral_dir:-.}}/$1
    if [ -f "$_corral_file" ]; then
      if [ -x "$_corral_file" ]; then _corral_path=$_corral_file; break; fi
      _corral_code=126
    fi
  done ;;
esac
if [ -e "$_corral_path" ] && {{ [ -d "$_corral_path" ] || [ ! -x "$_corral_path" ]; }}; then
  _corral_path= _corral_code=126
fi
if [ ! -e "$_corral_path" ]; then
  case $_corral_code in 126) _corral_word='cannot be executed' ;; *) _corral_word='not found' ;; esac
  printf 'corral: %s: %s\\n' "$1" "$_corral_word" >&2
  exit "$_corral_code"
fi
shift
set -- "$_corral_path" "$@"
unset OLDPWD _corral_word _corral_path _corral_code _corral_rest _corral_dir _corral_file
exec "$@"
"""


def command_line(shell: tuple[str, ...], command: tuple[str, ...], processes_limit: int = 0) -> tuple[str, ...]:
    """What the sandbox runs first: `shell` with the gate's script, then the tenant's command as arguments.

    `processes_limit` is set by the gate on itself (a limit set outside would count every sandbox of the same user); 0
    leaves it to cgroups.
    """
    return (*shell, "-c", SCRIPT, "corral-gate", str(processes_limit), *command)


def make_folder(folder: Path, log_uid: int) -> None:
    """The folder that is shown inside, with its FIFOs; what is there already is left as it is.

    The gate runs as `log_uid`: it may read `go` and not write it, and read and write `log`.
    """
    folder.mkdir(mode=0o755, exist_ok=True)
    folder.chmod(0o755)
    for name, mode in ((GO, 0o644), (LOG, 0o600)):
        fifo = folder / name
        if not fifo.is_fifo():
            os.mkfifo(fifo)
            fifo.chmod(mode)
    if os.geteuid() == 0:
        os.chown(folder / LOG, log_uid, -1)
