/* The locks that tinydtls takes; the board has one thread. */
#ifndef BOARD_PTHREAD_H
#define BOARD_PTHREAD_H

#include <sys/types.h>

#define PTHREAD_MUTEX_INITIALIZER 0

static inline int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    (void)mutex;
    return 0;
}
static inline int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    (void)mutex;
    return 0;
}
static inline int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    (void)mutex;
    return 0;
}

#endif
