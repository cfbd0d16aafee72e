/* The datagrams of an association, in the file format of `src/transcript.rs`: for each its
 * direction, its length in two bytes (little-endian), and its bytes. */
#ifndef TRANSCRIPT_H
#define TRANSCRIPT_H

#define TRANSCRIPT "transcript"

enum kind { FROM_CLIENT = '>', FROM_SERVER = '<', ROUND = 'r' };

/* The seeds of the ends' random generators. */
#define CLIENT_SEED 1
#define SERVER_SEED 2

#endif
