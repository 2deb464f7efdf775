<?php

declare(strict_types=1);

namespace Larder;

/** A key, a list or a time to live that PSR-16 does not allow. */
final class Psr16InvalidArgument extends \InvalidArgumentException implements \Psr\SimpleCache\InvalidArgumentException
{
}
