/* The addresses that tinydtls names peers by. The C library of the board has none. */
#ifndef BOARD_SOCKET_H
#define BOARD_SOCKET_H

#include <stdint.h>

typedef uint32_t socklen_t;
typedef uint16_t sa_family_t;

struct in_addr {
    uint32_t s_addr;
};
struct in6_addr {
    uint8_t s6_addr[16];
};
struct sockaddr {
    sa_family_t sa_family;
    char sa_data[14];
};
struct sockaddr_in {
    sa_family_t sin_family;
    uint16_t sin_port;
    struct in_addr sin_addr;
};
struct sockaddr_in6 {
    sa_family_t sin6_family;
    uint16_t sin6_port;
    struct in6_addr sin6_addr;
};
struct sockaddr_storage {
    sa_family_t ss_family;
    uint32_t ss_data[6];
};

enum { AF_INET = 2, AF_INET6 = 10 };

#endif
