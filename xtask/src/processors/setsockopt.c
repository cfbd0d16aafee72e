/* For programs that QEMU 7.2 emulates: it knows no IPV6_MULTICAST_IF. The option then has no effect, and
   multicast leaves by the interface that the routes name. */
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int setsockopt(int socket, int level, int name, const void *value, socklen_t length)
{
    if (level == IPPROTO_IPV6 && name == IPV6_MULTICAST_IF)
        return 0;
    return syscall(SYS_setsockopt, socket, level, name, value, length);
}
