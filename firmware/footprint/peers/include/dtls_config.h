/* tinydtls with pre-shared keys alone. */
#define DTLS_PSK 1
#define HAVE_ASSERT_H 1
#define HAVE_INTTYPES_H 1
#define HAVE_STDDEF_H 1
#define HAVE_STDINT_H 1
#define HAVE_STDLIB_H 1
#define HAVE_STRING_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_TIME_H 1
#define DTLS_PEERS_NOHASH 1
#define WITH_SHA256 1
#define PACKAGE_NAME "tinydtls"
#define PACKAGE_VERSION "0.8.6"
#define PACKAGE_STRING "tinydtls 0.8.6"
