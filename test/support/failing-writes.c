/* Loaded into a process before its libraries: what lmdb writes to its first two pages fails while the file FAIL_WHILE is there, in files
 * whose path has FAIL_IN in it. That is a disk that fails at the worst moment: lmdb gives up on the whole environment. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int fd) {
  const char *file = getenv("FAIL_WHILE"), *in = getenv("FAIL_IN");
  if (!file || !in || access(file, F_OK) != 0) return 0;
  char name[64], path[4096];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(name, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return strstr(path, in) != NULL;
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
  static ssize_t (*real)(int, const void *, size_t, off64_t);
  if (!real) real = (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
  if (at < 8192 && fails(fd)) {
    errno = EIO;
    return -1;
  }
  return real(fd, bytes, count, at);
}
