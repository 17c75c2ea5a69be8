# SPDX-License-Identifier: Apache-2.0
#
# stdin: Translation-en indexes of a Debian archive: stanzas with the field Description-en.
# stdout: plain text, one paragraph a line with "\r" for line breaks, a line "\f" per package.
#
# Only long descriptions stay. Wrapped lines are joined; list items and indented lines keep a line
# of their own.
use strict;
use warnings;

binmode STDIN, ':encoding(UTF-8)';
binmode STDOUT, ':encoding(UTF-8)';

my (@paragraphs, $paragraph);
my $is_body = 0;
my $item_depth = 0;  # indentation of the open list item's text, 0 outside one

sub finish_paragraph {
  if (defined $paragraph) {
    $paragraph =~ s/[^\S\r]+/ /g;
    $paragraph =~ s/ ?\r ?/\r/g;
    push @paragraphs, $paragraph if $paragraph =~ /\w/;
  }
  undef $paragraph;
  $item_depth = 0;
}

sub finish_package {
  finish_paragraph();
  print map({ "$_\n" } @paragraphs), "\f\n" if @paragraphs;
  @paragraphs = ();
  $is_body = 0;
}

sub add_line {
  my ($indent, $text) = @_;
  my $is_item = $text =~ s/^(?:[*+-]|\x{2022}) +/* /;
  my $continues = defined $paragraph && !$is_item
      && ($item_depth ? $indent >= $item_depth : $indent == 1);
  my $separator = !defined $paragraph ? '' : $continues ? ' ' : "\r";
  $paragraph = ($paragraph // '') . $separator . $text;
  $item_depth = $is_item ? $indent + 1 : $continues ? $item_depth : 0;
}

while (my $line = <STDIN>) {
  chomp $line;
  $line =~ s/\t/ /g;
  if ($line =~ /^Description-en:/) {
    finish_package();
    $is_body = 1;
  } elsif ($line !~ /^ /) {
    finish_package();
  } elsif ($is_body && $line =~ /^ \.?\s*$/) {
    finish_paragraph();
  } elsif ($is_body && $line =~ /^( +)(.*?)\s*$/) {
    add_line(length $1, $2);
  }
}
finish_package();
