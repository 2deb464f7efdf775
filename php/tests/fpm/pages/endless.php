<?php
// Stores in an endless loop. php-fpm ends the request after `request_terminate_timeout`.
for ($i = 0;; ++$i) {
    apcu_store('endless' . $i % 100, str_repeat('x', 5000));
}
