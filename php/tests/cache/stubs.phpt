--TEST--
The stubs declare the same classes as reflection
--FILE--
<?php
/** Returns the declarations of a class, one line for each member. */
function describe(string $class): string
{
    $class = new ReflectionClass($class);
    $lines = [implode(' ', Reflection::getModifierNames($class->getModifiers())) . ' ' . $class->getShortName(),
        'extends ' . ($class->getParentClass() ?: null)?->getName(), implode(' ', $class->getInterfaceNames())];
    foreach ($class->getMethods() as $method) {
        if ($method->getDeclaringClass()->getName() !== $class->getName()) {
            continue;
        }
        $parameters = [];
        foreach ($method->getParameters() as $parameter) {
            $parameters[] = type($parameter->getType()) . ' $' . $parameter->getName()
                . ($parameter->isOptional() ? ' = ' . var_export($parameter->getDefaultValue(), true) : '');
        }
        $lines[] = implode(' ', Reflection::getModifierNames($method->getModifiers())) . " function {$method->getName()}("
            . implode(', ', $parameters) . '): ' . type($method->getReturnType());
    }
    sort($lines);
    return strtr(implode("\n", $lines), ['Stubs\\' => 'Larder\\']);
}

function type(?ReflectionType $type): string
{
    // Versions of PHP show iterable as one type or as two.
    $names = $type === null ? [] : explode('|', strtr((string) $type, ['iterable' => 'Traversable|array']));
    sort($names);
    return implode('|', $names);
}

$stubs = file_get_contents(getenv('LARDER_STUBS'));
eval(strtr($stubs, ['<?php' => '', 'namespace Larder;' => 'namespace Stubs;']));
preg_match_all('/^(?:final )?class (\w+)/m', $stubs, $names);
$classes = array_filter(get_declared_classes(), fn ($name) => str_starts_with($name, 'Larder\\'));
var_dump(count($classes) === count($names[1]));
foreach ($classes as $class) {
    $stub = 'Stubs\\' . substr($class, 7);
    if (describe($class) !== describe($stub)) {
        echo describe($class), "\n\nthe stub:\n\n", describe($stub), "\n";
    }
}
?>
--EXPECT--
bool(true)
