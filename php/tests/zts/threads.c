// Runs requests in threads of one process, with PHP's embed library:
// `threads INI SAPI THREADS REQUESTS SCRIPT`. INI is a php.ini, SAPI the name that modules see. The
// script returns a function, which each request calls with the number of its thread and its own
// number. The function returns true if it found no error. At the end the main thread calls it with
// null and null.

#include <pthread.h>
#include <sapi/embed/php_embed.h>

static const char *script;
static int thread_count;
static int request_count;
static pthread_barrier_t barrier;

static bool run(const char *thread, const char *request)
{
    char code[4096];
    zval result;
    snprintf(code, sizeof code, "(require '%s')(%s, %s)", script, thread, request);
    ZVAL_UNDEF(&result);
    bool is_well = false;
    zend_first_try {
        is_well = zend_eval_string_ex(code, &result, "threads", true) == SUCCESS
            && Z_TYPE(result) == IS_TRUE;
        zval_ptr_dtor(&result);
    } zend_end_try();
    if (!is_well) {
        fprintf(stderr, "thread %s, request %s: failed\n", thread, request);
    }
    return is_well;
}

static bool run_request(int thread, int request)
{
    char thread_text[16];
    char request_text[16];
    snprintf(thread_text, sizeof thread_text, "%d", thread);
    snprintf(request_text, sizeof request_text, "%d", request);
    if (php_request_startup() != SUCCESS) {
        fprintf(stderr, "thread %d, request %d: cannot begin\n", thread, request);
        return false;
    }
    SG(headers_sent) = 1;
    SG(request_info).no_headers = 1;
    bool is_well = run(thread_text, request_text);
    php_request_shutdown(NULL);
    return is_well;
}

static void *run_thread(void *argument)
{
    bool is_well = true;
    int thread = (int)(intptr_t)argument;
    ts_resource(0);
    pthread_barrier_wait(&barrier);
    for (int request = 0; request < request_count && is_well; ++request) {
        is_well = run_request(thread, request);
    }
    ts_free_thread();
    return (void *)(intptr_t)is_well;
}

static bool run_threads(void)
{
    pthread_t threads[256];
    bool is_well = true;
    pthread_barrier_init(&barrier, NULL, (unsigned)thread_count);
    for (int at = 0; at < thread_count; ++at) {
        if (pthread_create(&threads[at], NULL, run_thread, (void *)(intptr_t)at) != 0) {
            perror("pthread_create");
            exit(1);
        }
    }
    for (int at = 0; at < thread_count; ++at) {
        void *outcome = NULL;
        pthread_join(threads[at], &outcome);
        is_well = is_well && outcome != NULL;
    }
    return is_well;
}

int main(int count, char **arguments)
{
    if (count != 6 || (thread_count = atoi(arguments[3])) > 256) {
        fprintf(stderr, "threads INI SAPI THREADS REQUESTS SCRIPT\n");
        return 2;
    }
    php_embed_module.php_ini_path_override = arguments[1];
    php_embed_module.name = arguments[2];
    request_count = atoi(arguments[4]);
    script = arguments[5];
    if (php_embed_init(count, arguments) != SUCCESS) {
        fprintf(stderr, "PHP does not start\n");
        return 1;
    }
    bool is_well = run_threads();
    is_well = run("null", "null") && is_well;
    php_embed_shutdown();
    printf("%d threads, %d requests each: %s\n", thread_count, request_count,
           is_well ? "well" : "FAILED");
    return !is_well;
}
