<?php
// Stores without end: php-fpm ends the request, `request_terminate_timeout` after it began.
for ($i = 0;; ++$i) {
    apcu_store('endless' . $i % 100, str_repeat('x', 5000));
}
