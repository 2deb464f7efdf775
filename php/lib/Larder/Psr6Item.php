<?php

declare(strict_types=1);

namespace Larder;

use Psr\Cache\CacheItemInterface;

/** An item of Larder\Psr6. */
final class Psr6Item implements CacheItemInterface
{
    /** The Unix time at which the item expires; null if it does not. */
    private ?int $expires = null;

    /** @internal Psr6 creates items. */
    public function __construct(private string $key, private mixed $value, private bool $isHit)
    {
    }

    public function getKey(): string
    {
        return $this->key;
    }

    public function get(): mixed
    {
        return $this->isHit ? $this->value : null;
    }

    public function isHit(): bool
    {
        return $this->isHit;
    }

    public function set($value): static
    {
        $this->value = $value;
        return $this;
    }

    public function expiresAt($expiration): static
    {
        if ($expiration !== null && !$expiration instanceof \DateTimeInterface) {
            throw new Psr6InvalidArgument('An expiration must be a DateTimeInterface or null');
        }
        $this->expires = $expiration?->getTimestamp();
        return $this;
    }

    public function expiresAfter($time): static
    {
        $this->expires = match (true) {
            $time === null => null,
            is_int($time) => time() + $time,
            $time instanceof \DateInterval => (new \DateTimeImmutable())->add($time)->getTimestamp(),
            default => throw new Psr6InvalidArgument('A time to live must be an integer, a DateInterval or null'),
        };
        return $this;
    }

    /** @internal Returns the value that was set, even if the item is not a hit. */
    public function given(): mixed
    {
        return $this->value;
    }

    /** @internal Returns the seconds until the item expires; null if it does not. */
    public function ttl(): ?int
    {
        return $this->expires === null ? null : $this->expires - time();
    }
}
