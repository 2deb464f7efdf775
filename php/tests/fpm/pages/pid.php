<?php
// The process id of the worker.
echo getmypid();
