/* wolfSSL with pre-shared keys alone: AES_128_CCM_8. PEER_13 chooses DTLS 1.3 in place of DTLS 1.2,
 * PEER_SERVER adds the server, and PEER_FAST chooses speed where
 * wolfSSL has a smaller form besides. */
#define WOLFSSL_GENERIC_PORT
#define SINGLE_THREADED
#define NO_FILESYSTEM
#define NO_WRITEV
#define WOLFSSL_USER_IO
#define NO_MAIN_DRIVER
#define NO_ERROR_STRINGS
#define WOLFSSL_SMALL_STACK
#define NO_SESSION_CACHE
#ifndef PEER_SERVER
#define NO_WOLFSSL_SERVER
#endif
#define SIZEOF_LONG_LONG 8

#define WOLFSSL_DTLS
#define NO_OLD_TLS
#ifdef PEER_13
#define WOLFSSL_TLS13
#define WOLFSSL_DTLS13
#define WOLFSSL_NO_TLS12
#define HAVE_TLS_EXTENSIONS
#define HAVE_HKDF
#define WOLFSSL_SEND_HRR_COOKIE
#define WOLFSSL_AES_DIRECT
#define WOLFSSL_DEF_PSK_CIPHER TLS_AES_128_CCM_8_SHA256
#ifdef PEER_SERVER
/* The server asks for a member that wolfSSL 5.9.4 declares only with curves. The other member is zero
 * as well: both are policies that nobody asks for here. */
#define onlyPskDheKe failNoPSK
#endif
#endif

#define WOLFSSL_STATIC_PSK
#define NO_CERTS
#define NO_ASN
#define NO_RSA
#define NO_DH
#define NO_DSA
#define NO_PWDBASED
#define NO_PKCS12
#define NO_PKCS8
#define NO_BIG_INT
#define WOLFSSL_SP_NO_MALLOC

#define NO_AES_192
#define NO_AES_256
#define HAVE_AESCCM
#define WOLFSSL_AES_COUNTER
#ifndef PEER_FAST
#define WOLFSSL_AES_SMALL_TABLES
#define USE_SLOW_SHA256
#endif
#define NO_SHA
#define NO_MD4
#define NO_MD5
#define NO_RC4
#define NO_DES3
#define NO_OLD_SHA256

#define WC_NO_HASHDRBG
#include "board.h"
static inline int board_seed(unsigned char *out, unsigned length)
{
    board_random(out, length);
    return 0;
}
#define CUSTOM_RAND_GENERATE_BLOCK board_seed
#define WOLFSSL_NO_ASN_STRICT
