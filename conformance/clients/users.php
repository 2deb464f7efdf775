<?php
// php-memcached with users: users.php PORT FOLDER. FOLDER has the sockets `noauth` and `readonly`.
declare(strict_types=1);

[, $port, $folder] = $argv;

function check(string $name, bool $holds, ?Memcached $client = null): void
{
    $why = $client === null ? '' : " ({$client->getResultCode()}: {$client->getResultMessage()})";
    echo $holds ? "ok - $name\n" : "not ok - $name$why\n";
}

function connect(string $host, int $port, bool $binary): Memcached
{
    $client = new Memcached();
    $client->setOption(Memcached::OPT_BINARY_PROTOCOL, $binary);
    $client->setOption(Memcached::OPT_TCP_NODELAY, true);
    $client->addServer($host, $port);
    return $client;
}

function keys(string $name, Memcached $c, int $refusal): void
{
    check("$name: a permitted set", $c->set('shop:php', 'v'), $c);
    check("$name: a permitted get", $c->get('shop:php') === 'v', $c);
    check("$name: a refused set", !$c->set('other:php', 'v'), $c);
    check("$name: the code of a refused set", $c->getResultCode() === $refusal, $c);
    check("$name: a refused get", $c->get('other:php') === false, $c);
    // libmemcached drops the error of a get: it looks like a miss.
    $code = $c->getResultCode();
    check("$name: the code of a refused get", $code === Memcached::RES_NOTFOUND, $c);
    check("$name: a permitted get after the refusals", $c->get('shop:php') === 'v', $c);
}

// SASL in the binary protocol. libmemcached logs in on each connection that it opens.
$sasl = connect('127.0.0.1', (int) $port, true);
check('SASL: setSaslAuthData', $sasl->setSaslAuthData('shop', 'sesame'), $sasl);
keys('SASL', $sasl, Memcached::RES_AUTH_FAILURE);

$wrong = connect('127.0.0.1', (int) $port, true);
$wrong->setSaslAuthData('shop', 'wrong');
check('SASL: a wrong password', !$wrong->set('shop:php', 'w'), $wrong);
check('SASL: its code', $wrong->getResultCode() === Memcached::RES_AUTH_FAILURE, $wrong);

$reader = connect('127.0.0.1', (int) $port, true);
$reader->setSaslAuthData('reader', 'read-it');
check('SASL: a reader reads', $reader->get('shop:php') === 'v', $reader);
check('SASL: a reader does not write', !$reader->set('shop:php', 'w'), $reader);
$code = $reader->getResultCode();
check('SASL: the code of a reader', $code === Memcached::RES_AUTH_FAILURE, $reader);

// The login by text is a set of any key, on the same port.
$text = connect('127.0.0.1', (int) $port, false);
check('text: a get without a login', $text->get('shop:php') === false, $text);
check('text: a set without a login', !$text->set('shop:php', 'v'), $text);
check('text: its code', $text->getResultCode() === Memcached::RES_CLIENT_ERROR, $text);
check('text: a login', $text->set('login', 'shop sesame'), $text);
keys('text', $text, Memcached::RES_CLIENT_ERROR);

foreach ([false, true] as $binary) {
    $name = $binary ? 'binary' : 'text';
    $c = connect("$folder/noauth", 0, $binary);
    check("noauth, $name: any key", $c->set('other:php', 'v') && $c->get('other:php') === 'v', $c);
    $c = connect("$folder/readonly", 0, $binary);
    check("readonly, $name: get", $c->get('other:php') === 'v', $c);
    check("readonly, $name: a refused set", !$c->set('other:php', 'w'), $c);
    check("readonly, $name: the value stays", $c->get('other:php') === 'v', $c);
}
echo "done\n";
