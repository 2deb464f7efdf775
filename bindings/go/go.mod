module larder

go 1.24

require larder/shared v0.0.0

replace larder/shared => ./shared
