/** Numbers on x86-64 and arm64, from the kernel's unistd.h; -1: that processor has none. */
export const CALLS: Readonly<Record<string, readonly [number, number]>> = {
  socket: [41, 198], socketpair: [53, 199], bind: [49, 200], connect: [42, 203], listen: [50, 201], accept4: [288, 242], sendto: [44, 206], recvfrom: [45, 207], sendmsg: [46, 211], recvmsg: [47, 212],
  getsockopt: [55, 209], setsockopt: [54, 208], getsockname: [51, 204], getpeername: [52, 205], shutdown: [48, 210], close: [3, 57], execveat: [322, 281],
  kill: [62, 129], tgkill: [234, 131], tkill: [200, 130], rt_sigqueueinfo: [129, 138], rt_tgsigqueueinfo: [297, 240], prlimit64: [302, 261], setpriority: [141, 140], sched_setaffinity: [203, 122],
  sched_setscheduler: [144, 119], sched_setattr: [314, 274], ioprio_set: [251, 30], ptrace: [101, 117], process_vm_readv: [310, 270], process_vm_writev: [311, 271], process_madvise: [440, 440],
  process_mrelease: [448, 448], pidfd_open: [434, 434], pidfd_send_signal: [424, 424], pidfd_getfd: [438, 438], kcmp: [312, 272], migrate_pages: [256, 238], move_pages: [279, 239], unshare: [272, 97],
  setns: [308, 268], clone: [56, 220], clone3: [435, 435], execve: [59, 221], mount: [165, 40], umount2: [166, 39], pivot_root: [155, 41], chroot: [161, 51], chdir: [80, 49], bpf: [321, 280],
  perf_event_open: [298, 241], userfaultfd: [323, 282], io_uring_setup: [425, 425], keyctl: [250, 219], add_key: [248, 217], request_key: [249, 218], init_module: [175, 105], finit_module: [313, 273],
  delete_module: [176, 106], kexec_load: [246, 104], reboot: [169, 142], shmget: [29, 194], msgget: [68, 186], semget: [64, 190], mq_open: [240, 180], setuid: [105, 146], setgid: [106, 144],
  setreuid: [113, 145], setresuid: [117, 147], setgroups: [116, 159], capset: [126, 91], memfd_create: [319, 279], memfd_secret: [447, 447], open_by_handle_at: [304, 265], name_to_handle_at: [303, 264],
  fanotify_init: [300, 262], inotify_init1: [294, 26], quotactl: [179, 60], swapon: [167, 224], sethostname: [170, 161], settimeofday: [164, 170], clock_settime: [227, 112], adjtimex: [159, 171],
  landlock_create_ruleset: [444, 444], seccomp: [317, 277], personality: [135, 92], acct: [163, 89], syslog: [103, 116], truncate: [76, 45], mknodat: [259, 33], linkat: [265, 37], renameat2: [316, 276],
  unlinkat: [263, 35], fchmodat: [268, 53], fchownat: [260, 54], utimensat: [280, 88], setxattr: [188, 5], symlinkat: [266, 36], mkdirat: [258, 34], openat2: [437, 437], splice: [275, 76], tee: [276, 77],
  vmsplice: [278, 75], sendfile: [40, 71], prctl: [157, 167], setsid: [112, 157], timer_create: [222, 107], setitimer: [38, 103], set_mempolicy: [238, 237], modify_ldt: [154, -1], iopl: [172, -1],
  ioperm: [173, -1], fork: [57, -1], vfork: [58, -1],
};

/** Calls that are let through for some arguments, or are tried elsewhere. */
export const AFTER_EXEC: ReadonlySet<string> = new Set(['close', 'execveat', 'kill', 'tgkill', 'rt_sigqueueinfo', 'rt_tgsigqueueinfo', 'prlimit64', 'sched_setaffinity', 'clone', 'prctl', 'socket', 'socketpair', 'bind', 'connect', 'listen', 'accept4', 'sendto', 'recvfrom', 'sendmsg', 'recvmsg', 'getsockopt', 'setsockopt', 'getsockname', 'getpeername', 'shutdown']);

export const NUMBERS: Readonly<Record<string, number>> = Object.fromEntries(Object.entries(CALLS).map(([name, numbers]) => [name, numbers[process.arch === 'arm64' ? 1 : 0]]));

export interface Call {
  readonly name: string;
  readonly number: number;
  readonly arguments: readonly number[];
}

/** Signals are 0 where one can be: a call that got through would harm nobody, and is seen all the same. */
export function refusedCalls(parent: number): Call[] {
  const named: [string, string, ...number[]][] = [
    ['kill the parent', 'kill', parent, 0],
    ['kill everyone', 'kill', -1, 0],
    ['kill the group', 'kill', 0, 0],
    ['kill the group of the parent', 'kill', -parent, 0],
    ['tgkill', 'tgkill', parent, parent, 0],
    ['rt_sigqueueinfo', 'rt_sigqueueinfo', parent, 0],
    ['rt_tgsigqueueinfo', 'rt_tgsigqueueinfo', parent, parent, 0],
    ['limits of the parent', 'prlimit64', parent, 7],
    ['processors of the parent', 'sched_setaffinity', parent, 8],
    ['clone as a fork does', 'clone', 17],
    ['clone as a vfork does', 'clone', 0x4111],
    ['clone with namespaces', 'clone', 0x10020900],
    ['live on after the parent', 'prctl', 1, 0],
    ['be dumpable', 'prctl', 4, 1],
    ['be traced by anyone', 'prctl', 0x59616d61, -1],
    ['new privileges', 'prctl', 38, 0],
    ['another filter', 'prctl', 22, 2],
    ['keep capabilities', 'prctl', 8, 1],
    ['execveat of another', 'execveat', 3, 0, 0, 0, 0x1000],
    ['execveat by path', 'execveat', 200, 0, 0, 0, 0],
  ];
  const plain = Object.keys(CALLS).filter((name) => !AFTER_EXEC.has(name)).map((name): [string, string, ...number[]] => [name, name]);
  const calls = [...named, ...plain].map(([name, call, ...args]) => ({ name, number: NUMBERS[call] as number, arguments: args })).filter(({ number }) => number >= 0);
  // The same calls by the numbers of the third interface of x86-64.
  return process.arch === 'x64' ? [...calls, { name: 'getpid of x32', number: 0x40000000 + 39, arguments: [] }, { name: 'socket of x32', number: 0x40000000 + 41, arguments: [2, 1, 0] }] : calls;
}
