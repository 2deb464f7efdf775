--TEST--
phpinfo has the rows of the module
--INI--
larder.enable_cli=1
--FILE--
<?php
(new ReflectionExtension('larder'))->info();
?>
--EXPECTF--

larder

Larder => enabled
Version => %d.%d.%d
Library => %d.%d.%d
Shared cache => anonymous
Shared cache, bytes => 33554432
Shared cache, state => open

Directive => Local Value => Master Value
%a
