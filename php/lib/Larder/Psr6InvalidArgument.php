<?php

declare(strict_types=1);

namespace Larder;

/** A key or a time to live that PSR-6 does not allow. */
final class Psr6InvalidArgument extends \InvalidArgumentException implements \Psr\Cache\InvalidArgumentException
{
}
