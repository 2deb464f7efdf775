// A cache in the process: store a value, get it back.
//
//     cc greeting.c $(pkg-config --cflags --libs larder) -o greeting
#include <larder.h>
#include <stdio.h>

int main(void) {
    larder_options options = {.struct_bytes = sizeof options, .memory_bytes = 16 << 20};
    larder *cache;
    char why[256];
    if (larder_open(&options, &cache, why, sizeof why) != LARDER_OK) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    // For a minute, without flags.
    larder_status status = larder_set(cache, "greeting", 8, "hello", 5, 60, 0);
    if (status != LARDER_OK) {
        fprintf(stderr, "%s\n", larder_status_text(status));
        return 1;
    }
    char value[100];
    larder_item item;
    if (larder_get(cache, "greeting", 8, value, sizeof value, &item) == LARDER_OK) {
        printf("%.*s\n", (int)item.value_bytes, value);
    }
    larder_close(cache);
    return 0;
}
