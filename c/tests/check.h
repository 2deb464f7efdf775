// Shared by the files of the behaviour test.
#ifndef CHECK_H
#define CHECK_H

#include <larder.h>
#include <stdio.h>
#include <stdlib.h>

// Ends the program with the expression if it is false.
#define CHECK(what)                                                            \
    do {                                                                       \
        if (!(what)) {                                                         \
            fprintf(stderr, "%s:%d: false: %s\n", __FILE__, __LINE__, #what);  \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

// A string literal as a pointer and a length.
#define TEXT(text) (text), (sizeof(text) - 1)

// Runs same_calls.c. `cache` is empty, uses cas tokens, and limits items to 1 MiB.
void same_calls(const larder *cache);

// Connects to the larderd at `socket`, which has no items, and runs connected.c.
void connected(const char *socket);

// Runs reports.c.
void reports(void);

// Runs tier.c, with directories in `folder`.
void tiers(const char *folder);

#endif
