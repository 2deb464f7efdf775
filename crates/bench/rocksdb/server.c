// A server for comparisons that uses RocksDB and speaks a part of memcached's text protocol.
//
//     rocksdb-server (-p PORT | -s SOCKET) -d DIRECTORY [-t THREADS] [-m MIB] [-D] [-S]
//
// It replaces PetraCache, a cache server on RocksDB that is not in any package registry: it has the
// same settings of RocksDB, the same format of values, and no write-ahead log. It is not
// PetraCache, which copies values and writes to the socket once for each command; this server does
// not.
//
// -m is the size of RocksDB's block cache. The page cache also holds blocks, unless -D bypasses it.
// -S counts the bytes that RocksDB writes, for `stats`. Commands: get with up to 100 keys, set,
// delete, version, stats, quit; and for measurements `advance SECS`, which advances the clock for
// expiry, and `settle`, which waits for memtables and compaction.
#include "database.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    LINE_BYTES_MAX = 64 << 10,
    KEY_BYTES_MAX = 250,
    KEYS_MAX = 100,
    // The buffer contains one command and its value, and further bytes that arrived with it.
    INPUT_BYTES_MAX = VALUE_BYTES_MAX + LINE_BYTES_MAX,
    // If more output than this is pending, a connection does not execute commands until the client
    // has read.
    OUTPUT_BYTES_MAX = 1 << 20,
    READ_BYTES = 64 << 10,
    EVENTS = 256,
};

struct buffer {
    char *bytes;
    size_t start, end, room;
};

struct connection {
    int socket;
    struct buffer in, out;
    // Bytes of a refused value that have not arrived yet.
    size_t skipped;
    bool has_quit, waits_to_write;
};

struct worker {
    int epoll, listener;
};

// The outcome of executing the received commands of a connection.
enum progress { NEEDS_INPUT, NEEDS_READER, FAILED };

static void fail(const char *what) {
    fprintf(stderr, "rocksdb-server: %s: %s\n", what, strerror(errno));
    exit(1);
}

// Makes space for more bytes after the end.
static char *reserve(struct buffer *buffer, size_t more) {
    if (buffer->start == buffer->end)
        buffer->start = buffer->end = 0;
    if (buffer->start > 0 && buffer->room - buffer->end < more) {
        buffer->end -= buffer->start;
        memmove(buffer->bytes, buffer->bytes + buffer->start, buffer->end);
        buffer->start = 0;
    }
    if (buffer->room - buffer->end < more) {
        buffer->room = 2 * (buffer->end + more);
        buffer->bytes = realloc(buffer->bytes, buffer->room);
        if (buffer->bytes == NULL)
            fail("memory");
    }
    return buffer->bytes + buffer->end;
}

static void append(struct buffer *buffer, const char *bytes, size_t count) {
    memcpy(reserve(buffer, count), bytes, count);
    buffer->end += count;
}

static void answer(struct connection *connection, const char *text) {
    append(&connection->out, text, strlen(text));
}

static void answer_value(struct connection *connection, const char *key, size_t key_bytes,
                         uint32_t flags, const char *data, size_t bytes) {
    char head[64];
    int head_bytes = snprintf(head, sizeof head, " %u %zu\r\n", flags, bytes);
    answer(connection, "VALUE ");
    append(&connection->out, key, key_bytes);
    append(&connection->out, head, (size_t)head_bytes);
    append(&connection->out, data, bytes);
    answer(connection, "\r\n");
}

// Splits a line that ends with NUL at its spaces.
static size_t split(char *line, char **words, size_t words_max) {
    size_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (count < words_max)
            words[count] = word;
        count++;
    }
    return count;
}

static void get_one(struct connection *connection, const char *key, size_t key_bytes) {
    struct found found;
    if (database_get(key, key_bytes, &found)) {
        answer_value(connection, key, key_bytes, found.flags, found.data, found.bytes);
        database_release(&found);
    }
    answer(connection, "END\r\n");
}

static void get(struct connection *connection, char **keys, size_t count) {
    size_t key_bytes[KEYS_MAX], bytes[KEYS_MAX];
    char *values[KEYS_MAX];
    for (size_t at = 0; at < count; at++) {
        key_bytes[at] = strlen(keys[at]);
        if (key_bytes[at] > KEY_BYTES_MAX) {
            answer(connection, "CLIENT_ERROR a key has at most 250 bytes\r\n");
            return;
        }
    }
    if (count == 1) {
        get_one(connection, keys[0], key_bytes[0]);
        return;
    }
    database_get_many(count, (const char *const *)keys, key_bytes, values, bytes);
    for (size_t at = 0; at < count; at++) {
        uint32_t flags;
        if (values[at] != NULL && database_head(values[at], bytes[at], &flags))
            answer_value(connection, keys[at], key_bytes[at], flags, values[at] + HEAD_BYTES,
                         bytes[at] - HEAD_BYTES);
        rocksdb_free(values[at]);
    }
    answer(connection, "END\r\n");
}

// Parses a word that consists of a number.
static bool number(const char *word, long long min, long long max, long long *found) {
    char *end;
    errno = 0;
    *found = strtoll(word, &end, 10);
    return errno == 0 && end != word && *end == '\0' && *found >= min && *found <= max;
}

// Executes `set KEY FLAGS EXPTIME BYTES [noreply]`, whose value begins `line_bytes` after the start
// of the input. Returns false if the value has not arrived.
static bool set(struct connection *connection, char **words, size_t count, size_t line_bytes) {
    long long flags, exptime, bytes;
    if (count < 5 || count > 6 || !number(words[4], 0, INT32_MAX, &bytes)) {
        connection->in.start += line_bytes;
        answer(connection, "CLIENT_ERROR expected set KEY FLAGS EXPTIME BYTES\r\n");
        return true;
    }
    bool is_wrong = strlen(words[1]) > KEY_BYTES_MAX || !number(words[2], 0, UINT32_MAX, &flags) ||
                    !number(words[3], INT32_MIN, INT64_MAX, &exptime);
    if (is_wrong || bytes > VALUE_BYTES_MAX) {
        connection->in.start += line_bytes;
        connection->skipped = (size_t)bytes + 2;
        answer(connection, is_wrong ? "CLIENT_ERROR bad key, flags or exptime\r\n"
                                    : "SERVER_ERROR object too large for cache\r\n");
        return true;
    }
    const char *data = connection->in.bytes + connection->in.start + line_bytes;
    if (connection->in.end - connection->in.start < line_bytes + (size_t)bytes + 2)
        return false;
    connection->in.start += line_bytes + (size_t)bytes + 2;
    if (memcmp(data + bytes, "\r\n", 2) != 0) {
        answer(connection, "CLIENT_ERROR bad data chunk\r\n");
        connection->has_quit = true;
        return true;
    }
    database_set(words[1], strlen(words[1]), data, (size_t)bytes, (uint32_t)flags, exptime);
    if (count == 5)
        answer(connection, "STORED\r\n");
    return true;
}

static void stats(struct connection *connection) {
    static const char *const names[][2] = {
        {"rocksdb_flush_bytes", "rocksdb.flush.write.bytes"},
        {"rocksdb_compaction_bytes", "rocksdb.compact.write.bytes"},
        {"rocksdb_stall_micros", "rocksdb.stall.micros"},
        {"rocksdb_block_cache_data_miss", "rocksdb.block.cache.data.miss"},
    };
    char row[128];
    for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
        unsigned long long count = database_count(names[at][1]);
        snprintf(row, sizeof row, "STAT %s %llu\r\n", names[at][0], count);
        answer(connection, row);
    }
    answer(connection, "END\r\n");
}

// Executes a command of one line. `words` point into a copy of the line that the caller owns.
static void execute(struct connection *connection, char **words, size_t count) {
    const char *name = words[0];
    long long secs;
    if (strcmp(name, "get") == 0 && count >= 2 && count <= KEYS_MAX + 1) {
        get(connection, words + 1, count - 1);
    } else if (strcmp(name, "delete") == 0 && (count == 2 || count == 3)) {
        bool was_there = database_delete(words[1], strlen(words[1]));
        if (count == 2)
            answer(connection, was_there ? "DELETED\r\n" : "NOT_FOUND\r\n");
    } else if (strcmp(name, "version") == 0) {
        answer(connection, "VERSION rocksdb-server on RocksDB " ROCKSDB_VERSION "\r\n");
    } else if (strcmp(name, "stats") == 0) {
        stats(connection);
    } else if (strcmp(name, "settle") == 0) {
        database_settle();
        answer(connection, "OK\r\n");
    } else if (strcmp(name, "advance") == 0 && count >= 2 && number(words[1], 0, INT32_MAX, &secs)) {
        database_advance((uint64_t)secs);
        if (count == 2)
            answer(connection, "OK\r\n");
    } else if (strcmp(name, "quit") == 0) {
        connection->has_quit = true;
    } else {
        answer(connection, "ERROR\r\n");
    }
}

// Skips the rest of a refused value.
static void skip(struct connection *connection) {
    size_t arrived = connection->in.end - connection->in.start;
    size_t skipped = arrived < connection->skipped ? arrived : connection->skipped;
    connection->in.start += skipped;
    connection->skipped -= skipped;
}

// Executes the commands that have arrived, until the responses fill the output.
static enum progress execute_all(struct connection *connection) {
    char line[LINE_BYTES_MAX], *words[KEYS_MAX + 1];
    struct buffer *in = &connection->in;
    while (!connection->has_quit) {
        if (connection->out.end - connection->out.start >= OUTPUT_BYTES_MAX)
            return NEEDS_READER;
        skip(connection);
        if (in->start == in->end)
            return NEEDS_INPUT;
        const char *begin = in->bytes + in->start, *end = memchr(begin, '\n', in->end - in->start);
        if (end == NULL && in->end - in->start < LINE_BYTES_MAX)
            return NEEDS_INPUT;
        if (end == NULL || end - begin >= LINE_BYTES_MAX)
            return FAILED;
        size_t line_bytes = (size_t)(end - begin) + 1;
        memcpy(line, begin, line_bytes);
        line[line_bytes - (line_bytes >= 2 && end[-1] == '\r' ? 2 : 1)] = '\0';
        size_t count = split(line, words, KEYS_MAX + 1);
        if (count > 0 && strcmp(words[0], "set") == 0) {
            if (!set(connection, words, count, line_bytes))
                return NEEDS_INPUT;
            continue;
        }
        in->start += line_bytes;
        if (count == 0)
            answer(connection, "ERROR\r\n");
        else
            execute(connection, words, count);
    }
    return NEEDS_INPUT;
}

// Writes as much output as the client accepts. Returns false if the connection has failed.
static bool flush(struct connection *connection) {
    struct buffer *out = &connection->out;
    while (out->start < out->end) {
        ssize_t written = send(connection->socket, out->bytes + out->start, out->end - out->start,
                               MSG_NOSIGNAL);
        if (written < 0)
            return errno == EAGAIN || errno == EINTR;
        out->start += (size_t)written;
    }
    return true;
}

// Executes commands and writes responses until the client must send or read. Returns false at the
// end of the connection.
static bool serve(struct connection *connection) {
    for (;;) {
        enum progress progress = execute_all(connection);
        if (progress == FAILED || !flush(connection))
            return false;
        bool is_written = connection->out.start == connection->out.end;
        connection->waits_to_write = !is_written;
        if (is_written && connection->has_quit)
            return false;
        if (!is_written || progress == NEEDS_INPUT)
            return true;
    }
}

static bool receive(struct connection *connection) {
    struct buffer *in = &connection->in;
    if (in->end - in->start >= INPUT_BYTES_MAX)
        return false;
    char *room = reserve(in, READ_BYTES);
    ssize_t count = recv(connection->socket, room, READ_BYTES, 0);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR;
    in->end += (size_t)count;
    return count > 0;
}

static void watch(struct worker *worker, struct connection *connection, int operation) {
    struct epoll_event event = {
        .events = connection->waits_to_write ? EPOLLOUT : EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(worker->epoll, operation, connection->socket, &event) != 0)
        fail("epoll_ctl");
}

static void accept_one(struct worker *worker) {
    int socket = accept4(worker->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;
    if (socket < 0)
        return; // Another worker has taken it.
    // A Unix socket has no such option.
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL)
        fail("memory");
    connection->socket = socket;
    watch(worker, connection, EPOLL_CTL_ADD);
}

static void end(struct connection *connection) {
    close(connection->socket);
    free(connection->in.bytes);
    free(connection->out.bytes);
    free(connection);
}

static void *work(void *of) {
    struct worker *worker = of;
    struct epoll_event events[EVENTS];
    for (;;) {
        int count = epoll_wait(worker->epoll, events, EVENTS, -1);
        for (int at = 0; at < count; at++) {
            struct connection *connection = events[at].data.ptr;
            if (connection == NULL) {
                accept_one(worker);
                continue;
            }
            bool waited = connection->waits_to_write;
            if ((!waited && !receive(connection)) || !serve(connection))
                end(connection);
            else if (connection->waits_to_write != waited)
                watch(worker, connection, EPOLL_CTL_MOD);
        }
    }
    return NULL;
}

static void start_worker(int listener) {
    struct worker *worker = malloc(sizeof *worker);
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE};
    pthread_t thread;
    if (worker == NULL)
        fail("memory");
    *worker = (struct worker){.epoll = epoll_create1(EPOLL_CLOEXEC), .listener = listener};
    if (epoll_ctl(worker->epoll, EPOLL_CTL_ADD, listener, &event) != 0)
        fail("epoll_ctl");
    if (pthread_create(&thread, NULL, work, worker) != 0)
        fail("pthread_create");
}

static int listen_at(const char *path, int port) {
    struct sockaddr_un unix_address = {.sun_family = AF_UNIX};
    struct sockaddr_in tcp_address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    tcp_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (path != NULL && strlen(path) >= sizeof unix_address.sun_path) {
        errno = ENAMETOOLONG;
        fail(path);
    }
    if (path != NULL)
        strcpy(unix_address.sun_path, path);
    int on = 1, listener = socket(path != NULL ? AF_UNIX : AF_INET,
                                  SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const struct sockaddr *address =
        path != NULL ? (struct sockaddr *)&unix_address : (struct sockaddr *)&tcp_address;
    socklen_t bytes = path != NULL ? sizeof unix_address : sizeof tcp_address;
    if (listener < 0 || bind(listener, address, bytes) != 0 || listen(listener, 1024) != 0)
        fail("cannot listen");
    return listener;
}

int main(int count, char **words) {
    struct settings settings = {.cache_bytes = (size_t)1 << 30};
    const char *path = NULL;
    int threads = 1, port = 0, option;
    // -l, -u and -U are memcached's options, which tests pass to every server.
    while ((option = getopt(count, words, "p:s:d:t:m:DSl:u:U:")) != -1) {
        switch (option) {
        case 'p': port = atoi(optarg); break;
        case 's': path = optarg; break;
        case 'd': settings.directory = optarg; break;
        case 't': threads = atoi(optarg); break;
        case 'm': settings.cache_bytes = (size_t)atoi(optarg) << 20; break;
        case 'D': settings.is_direct = true; break;
        case 'S': settings.has_counts = true; break;
        case 'l': case 'u': case 'U': break;
        default: return 2;
        }
    }
    if (settings.directory == NULL || (path == NULL && port == 0) || threads < 1) {
        fprintf(stderr, "expected: rocksdb-server (-p PORT | -s SOCKET) -d DIRECTORY "
                        "[-t THREADS] [-m MIB] [-D] [-S]\n");
        return 2;
    }
    database_open(&settings);
    int listener = listen_at(path, port);
    for (int thread = 0; thread < threads; thread++)
        start_worker(listener);
    for (;;)
        pause();
}
